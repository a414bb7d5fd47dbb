"""Which frames of stacks of apps are of the product's own code: by the path of an image, else by its name (G-198)."""

from __future__ import annotations

import pytest

from service.ingest.stacks.reading import read_trace
from tests.service.ingest.grouping.test_alike import Event, as_text, case_of, event

OWN = ("Shop", "ShopKit", "CoreShop", "ShopFoundation", "MetalShop", "library", "libshop.dylib", "Shop.debug.dylib")
OF_SYSTEM = (
    *("UIKitCore", "CoreFoundation", "Foundation", "SwiftUI", "QuartzCore", "CFNetwork", "MapKit", "CoreData", "UIKit"),
    *("libobjc.A.dylib", "libdispatch.dylib", "libsystem_kernel.dylib", "libswiftCore.dylib", "libc++abi.dylib"),
    *("dyld", "dyld_sim", "com.apple.CoreFoundation", "libz.1.dylib", "libsqlite3.dylib", "???", "Flutter", "hermes"),
)
REPORT = """\
0   libsystem_kernel.dylib   0x00000001a1b2c3d0 __pthread_kill + 8
1   CoreFoundation           0x00000001a1b2c3d0 __exceptionPreprocess + 220
2   Messages                 0x0000000104a1b2c0 -[Cart total] + 124
3   com.shop.Shop            0x0000000104a1b2c0 -[Page show] + 12
4   SystemShop               0x0000000104a1b2c0 -[App run] + 12

Binary Images:
0x104a18000 - 0x104a2ffff Messages arm64  <0a1b2c3d4e5f60718293a4b5c6d7e8f9> /var/containers/Bundle/A/Shop.app/Frameworks/Messages
       0x10a5c7000 -        0x10a5c9fff +com.shop.Shop (1.0 - 1) <0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9> /Applications/Shop.app/Contents/MacOS/Shop
0x1a1a00000 - 0x1a1bfffff CoreFoundation arm64e  <0a1b2c3d4e5f60718293a4b5c6d7e8f0> /System/Library/Frameworks/CoreFoundation.framework/CoreFoundation
0x1a1a00000 - 0x1a1bfffff SystemShop arm64e  <0a1b2c3d4e5f60718293a4b5c6d7e8f1> /Library/CoreSimulator/iOS.simruntime/RuntimeRoot/usr/lib/SystemShop
"""  # noqa: E501 - lines of a crash report


def own(stack: str) -> list[str | None]:
    return [call.function for call in read_trace(stack).calls if call.in_app]


@pytest.mark.parametrize(("image", "expected"), [*((name, 1) for name in OWN), *((name, 0) for name in OF_SYSTEM)])
def test_an_image_is_of_the_system_by_its_name(image: str, expected: int) -> None:
    """Frameworks of the product's own in `…Kit` and `Core…` are its own."""
    assert len(own(f"0   {image}   0x0000000104a1b2c0 -[Cart total] + 124\n")) == expected


def test_the_path_of_an_image_beats_its_name() -> None:
    assert own(REPORT) == ["-[Cart total]", "-[Page show]"]


def android(name: str, file: str, line: int) -> Event:
    return as_text("E", "x", f"E: x\n\tat c.a.b.{name}({file}:{line})\n")


R8 = ("r8-map-id-0f3a9c", "r8-map-id-" + "77ab" * 16)


def test_the_hash_of_a_build_is_no_file() -> None:
    """R8 writes it in the place of one. What is minified counts by its line, and what is not by its name."""
    one, other = R8
    assert case_of(android("a", one, 96)) == case_of(android("a", other, 96)) == case_of(android("a", "SourceFile", 96))
    assert case_of(android("a", one, 96)) != case_of(android("a", one, 7))
    sdk = [
        {"filename": file, "module": "com.shop.Cart", "function": "total", "lineno": 9, "in_app": True} for file in R8
    ]
    cases = {case_of(event({"type": "E", "value": "x", "stacktrace": {"frames": [frame]}})) for frame in sdk}
    assert len(cases) == 1
