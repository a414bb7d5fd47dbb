"""Stack traces as text, taken apart: what OpenTelemetry sends of an exception (G-142, G-175). Pure.

Each language has a reader, `find_python` and so on. The first that finds calls has the trace. A line that is none of
its forms is passed over. Work is linear in the text, of which a bounded part is read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from service.ingest.stacks import compiled, scripted
from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number

# Stack traces of Haskell, OCaml and of Clojure's data. Haskell says of a function where it was called, so the place of
# each line is in the function of the next one.

_HASKELL = re.compile(
    r"^ {2,6}([^\s,]{1,200}), called at ([^\n:]{1,300}):([0-9]{1,9}):([0-9]{1,9})"
    r" in ([^\s:]{1,200}):([\w.]{1,200})$",
    re.MULTILINE,
)
_PROFILED = re.compile(
    r"^ {2,6}([\w.']{1,300}) \(([^\n():]{1,300}):\(?([0-9]{1,9})[:,]([0-9]{1,9})[^\n]{0,40}\)$", re.MULTILINE
)
_HASKELL_BEGIN = "CallStack (from "
_HASKELL_LIBRARY = re.compile(r"(?:libraries/|\.stack/|dist-newstyle/src/)")
_HASKELL_UNIT = re.compile(r"(?:base|ghc-[\w.-]{1,40}|containers|text|bytestring|mtl|transformers)(?:-[0-9]|\Z)")
_OCAML = re.compile(
    r"^(Raised|Re-raised|Called)(?: (?:at|from|by primitive operation at))"
    r"(?: ([^\s\"]{1,300}))?(?: in)? file \"([^\"\n]{1,300})\"(?: \(inlined\))?, lines? ([0-9]{1,9})[^\n]{0,60}$",
    re.MULTILINE,
)
_OCAML_LIBRARY = re.compile(
    r"(?:Stdlib|Camlinternal\w{1,20}|Printexc|Lwt\w{0,20}|Base|Core|Async\w{0,20}|Eio\w{0,20}|Cohttp\w{0,20})(?:__|\.|\Z)"
)
_CLOJURE = re.compile(r'\[([\w.$!?*<>+=/-]{1,300}) ([\w$<>]{1,100}) "([^"\n]{1,200})" (-?[0-9]{1,9})\]')
_CLOJURE_TRACE = ":trace"
_CLOJURE_LIBRARY = re.compile(r"(?:clojure|java|javax|jdk|nrepl|leiningen|sun)\.")


def find_haskell(stack: str) -> Trace:
    """Read a call stack of GHC. A profiled program prints the latest call last."""
    text = stack[:MAX_READ].partition(_HASKELL_BEGIN)[2]
    found = [match.groups() for match in _HASKELL.finditer(text)][:MAX_FOUND]
    if not found:
        calls = [
            TracedCall(file, name, number(line), number(column), in_app=_HASKELL_LIBRARY.match(file) is None)
            for name, file, line, column in (match.groups() for match in _PROFILED.finditer(text))
        ]
        return Trace(calls[::-1][:MAX_FOUND])
    around = [*[name for name, *_ in found[1:]], None]
    return Trace([
        TracedCall(file, name or module, number(line), number(column), module, _is_own_haskell(file, unit))
        for name, (_, file, line, column, unit, module) in zip(around, found, strict=True)
    ])  # fmt: skip


def _is_own_haskell(file: str, unit: str) -> bool:
    return _HASKELL_LIBRARY.match(file) is None and _HASKELL_UNIT.match(unit) is None


def find_ocaml(stack: str) -> Trace:
    """Read a backtrace. An exception raised again counts from its first place."""
    text = stack[:MAX_READ]
    calls: list[TracedCall] = []
    for match in _OCAML.finditer(text) if 'file "' in text else ():
        _, name, file, line = match.groups()
        own = _OCAML_LIBRARY.match(name or "") is None
        calls.append(TracedCall(file, name and name.replace("__", "."), number(line), in_app=own))
    return Trace(calls[:MAX_FOUND])


def find_clojure(stack: str) -> Trace:
    """Read an exception as data, of which the trace comes last."""
    text = stack[:MAX_READ].partition(_CLOJURE_TRACE)[2]
    calls = [
        TracedCall(file, function, number(line.lstrip("-")), module=name, in_app=_CLOJURE_LIBRARY.match(name) is None)
        for name, function, file, line in (match.groups() for match in _CLOJURE.finditer(text))
    ]
    return Trace(calls[:MAX_FOUND])


# Stack traces of Elixir, with the Erlang that it calls.

_CALL = re.compile(
    r"^[ \t]{1,8}(?:\(([\w.]{1,100})(?: [^()\s]{1,50})?\) )?"
    r"(?:([^\s:()][^\n:()]{0,300}\.(?:exs?|erl|hrl|eex|heex|leex)):(\d{1,9}): |(?=:\w))([^\n]{1,400})$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^\*\* \(([\w.]{1,300})\) ", re.MULTILINE)
_ARITY = re.compile(r"/\d{1,3}$")
_PLATFORM = re.compile(
    r"(?:asn1|common_test|compiler|crypto|debugger|dialyzer|diameter|edoc|eex|eldap|elixir|erl_interface|erts|et"
    r"|eunit|ex_unit|ftp|iex|inets|kernel|logger|megaco|mix|mnesia|observer|os_mon|parsetools|public_key"
    r"|reltool|runtime_tools|sasl|snmp|ssh|ssl|stdlib|syntax_tools|tftp|tools|wx|xmerl)\Z"
)
_DEPENDENCY = "deps/"
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)')
_OPENING, _CLOSING = "([{<", ")]}>"


def find_elixir(stack: str) -> Trace:
    """Read the calls of an exception, and the exception where it is printed before them."""
    text = stack[:MAX_READ]
    matches = list(_CALL.finditer(text)) if ".ex" in text or ".erl" in text else []
    if not matches:
        return Trace()
    head = _HEAD.search(text)
    told = Reported(None, None)
    if head is not None and head.end() <= matches[0].start():
        told = Reported(head[1], text[head.end() : matches[0].start()].strip() or None)
    return Trace([_call(match) for match in matches[:MAX_FOUND]], *told)


def _call(match: re.Match[str]) -> TracedCall:
    application, file, line, printed = match.groups()
    function = _with_arity(printed)
    module = function.rpartition(" in ")[2].rpartition(".")[0] or None
    own = (
        (application is None or _PLATFORM.match(application) is None)
        and file is not None
        and not file.startswith(_DEPENDENCY)
    )
    return TracedCall(file, function, number(line), module=module, in_app=own)


def _with_arity(function: str) -> str:
    """A function by the number of its arguments: these stand in its place where none of its clauses took them."""
    if _ARITY.search(function) or not function.endswith(")") or "(" not in function[1:]:
        return function
    name, _, given = function[:-1].partition("(")
    depth = 0
    arity = int(bool(given.strip()))
    for sign in _TEXT.sub("", given):
        depth += (sign in _OPENING) - (sign in _CLOSING)
        arity += sign == "," and depth == 0
    return f"{name}/{arity}"


# Stack traces of apps: of Apple's systems, of Dart and Flutter, and of Unity and Mono. Apple's are read as a
# crash report or `callStackSymbols` writes them, Dart's as the language and its package for chains do. Unity names
# functions with the types of their arguments.

_APPLE_CALL = re.compile(
    r"^[0-9]{1,4} {1,4}([^\n]{1,100}?)[ \t]{1,60}0x[0-9a-f]{1,16} ([^\n]{1,400}?)(?: \+ [0-9]{1,12})?"
    r"(?: \(([^\n():]{1,200}):([0-9]{1,9})\)| \([^\n():]{1,200}\))?$",
    re.MULTILINE,
)
_APPLE_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}\Z")
_APPLE_IMAGE = re.compile(
    r"^ {0,8}0x[0-9a-f]{1,16} - {1,12}0x[0-9a-f]{1,16} \+?([^\s<]{1,100}) [^\n<]{0,100}<[0-9A-Fa-f-]{32,36}> "
    r"(/[^\n]{1,400})$",
    re.MULTILINE,
)
"""A line of a crash report with the path of an image."""
_APPLE_PATH = re.compile(
    r"(?:/[^\n]{1,200})?/(?:System/(?:Library|iOSSupport|Cryptexes|DriverKit|Applications)|RuntimeRoot)/"
    r"|/usr/lib/|/Library/Apple/|/[^\n]{1,200}/Xcode[^/\n]{0,20}\.app/"
)
_APPLE_LIBRARY = re.compile(
    r"dyld|com\.apple\.|lib(?:system_|System|objc\.|objc-|dispatch|c\+\+|swift[A-Z_]|icucore|clang_rt|corecrypto|commonCrypto"
    r"|boringssl|Mobile|MainThread|Backtrace|RPAC|ViewDebugger|GPU|MTL|GL|GFX|BLAS|LAPACK|vDSP|vMisc|BNNS|AFC|FontParser"
    r"|AXSpeech|Accessibility|IOReport|apple_"
    r"|(?:z|xml2|xslt|sqlite3|xpc|macho|unwind|gcc_s|network|resolv|notify|info|cache|copyfile|archive|curl|edit|ffi|iconv"
    r"|bz2|lzma|compression|sandbox|util|pthread|tidy|TIFF|Png|JPEG|coretls|quarantine|removefile|keymgr|pam|usrtcp)"
    r"(?=[.0-9]|\Z))"
)
"""Libraries of the system by the beginning of their names."""
_APPLE_NAMES = """
Accelerate Accessibility AccessibilityPlatformTranslation Accounts ActivityKit AddressBook AdServices AdSupport
AppClip AppIntents AppKit AppTrackingTransparency ARKit AssetsLibrary AttributeGraph AudioToolbox AudioToolboxCore
AudioUnit AuthenticationServices AutomaticAssessmentConfiguration AVFAudio AVFCapture AVFCore AVFoundation AVKit
BackBoardServices BackgroundTasks BaseBoard BoardServices BusinessChat CallKit Carbon CarPlay CFNetwork Charts
Cinematic ClassKit ClockKit CloudDocs CloudKit Cocoa ColorSync Combine Contacts ContactsUI CoreAudio CoreAudioKit
CoreAudioTypes CoreAutoLayout CoreBluetooth CoreData CoreDisplay CoreDuet CoreFoundation CoreGraphics CoreHaptics
CoreImage CoreLocation CoreLocationUI CoreMedia CoreMediaIO CoreMIDI CoreML CoreMotion CoreNFC CoreServices
CoreSpotlight CoreTelephony CoreText CoreTransferable CoreUI CoreUtils CoreVideo CoreWLAN CreateML CryptoKit
CryptoTokenKit DataDetection DeviceActivity DeviceCheck DisplayServices DriverKit EventKit EventKitUI
ExposureNotification ExtensionFoundation ExtensionKit ExternalAccessory FamilyControls FileProvider FinanceKit
FindMyDevice Foundation FrontBoard FrontBoardServices GameController GameKit GameplayKit Gestures GLKit
GraphicsServices GraphVisualizer GroupActivities HealthKit HealthKitUI HIToolbox HomeKit IdentityLookup ImageIO
ImagePlayground Intents IntentsUI IOKit IOSurface JavaScriptCore JournalingKit LinkPresentation LocalAuthentication
ManagedSettings MapKit Matter MediaAccessibility MediaPlayer MediaToolbox Messages MessageUI Metal MetalFX MetalKit
MetalPerformanceShaders MetalPerformanceShadersGraph MetricKit MobileCoreServices ModelIO MultipeerConnectivity
MusicKit NaturalLanguage NearbyInteraction Network NetworkExtension NewsstandKit NotificationCenter Observation
OpenAL OpenGL OpenGLES OSLog PaperKit PassKit PDFKit PencilKit PHASE Photos PhotosUI PlugInKit PrototypeTools
PushKit PushToTalk QuartzCore QuickLook QuickLookThumbnailing RealityFoundation RealityKit RelevanceKit ReplayKit
RoomPlan RunningBoardServices SafariServices SafetyKit SceneKit ScreenCaptureKit ScreenTime Security SensorKit
ShazamKit SkyLight Social SoundAnalysis Speech SpriteKit StoreKit SwiftData SwiftUI SwiftUICore Symbols
SystemConfiguration TabularData TextInput TipKit Translation TVMLKit TVServices TVUIKit UIFoundation UIKit UIKitCore
UIKitMacHelper UIKitServices UniformTypeIdentifiers UpdateCycle UserNotifications UserNotificationsUI vecLib
VideoSubscriberAccount VideoToolbox vImage Vision VisionKit WatchConnectivity WatchKit WeatherKit WebBookmarks
WebCore WebKit WebKitLegacy WidgetKit WorkoutKit XCTest xctest XCTestCore XCUIAutomation
"""
_APPLE_FRAMEWORKS = frozenset(_APPLE_NAMES.split())
"""Frameworks of the system. An app has others of its own in `…Kit` and `Core…`."""
_ENGINES = frozenset({"Flutter", "hermes", "???"})
"""Images of engines within an app, and no image at all."""
_APPLE_IMAGES = "\nBinary Images:"
_DART_CALL = re.compile(
    r"^#[0-9]{1,4} {1,9}([^\n]{1,300}?) \(((?:package|dart|file|org-dartlang-\w{1,10}):[^\n()]{1,400}?)"
    r"(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?\)$",
    re.MULTILINE,
)
_DART_CHAINED = re.compile(
    r"^((?:package|dart):[^\s:]{1,400}) ([0-9]{1,9})(?::([0-9]{1,9}))? {2,40}([^\n]{1,300})$", re.MULTILINE
)
_DART_OF_LIBRARY = re.compile(
    r"dart:|org-dartlang-|package:(?:flutter|flutter_\w{1,40}|sentry|sentry_\w{1,40}|async|bloc|collection|dio|http"
    r"|provider|riverpod|stack_trace|test_api)/"
)
_UNITY_CALL = re.compile(
    r"^[ \t]{0,8}(?:at )?([A-Za-z_<][^\s():]{0,300}(?::[^\s():]{1,200})?) ?(\([^\n()]{0,400}\))"
    r"(?: \(at ([^\n()]{1,400}):([0-9]{1,9})\)| \[0x[0-9a-f]{1,16}\] in ([^\n]{1,400}):([0-9]{1,9}))[ \r]?$",
    re.MULTILINE,
)
_UNITY_PLATFORM = re.compile(r"(?:UnityEngine|UnityEditor|Unity|System|Mono|TMPro|Sentry|Cysharp|DG)\.")
_UNITY_NO_FILE = "<"


def find_apple(stack: str) -> Trace:
    """Read the calls of the first thread."""
    text = stack[:MAX_READ]
    matches = list(_APPLE_CALL.finditer(text))[:MAX_FOUND] if "0x" in text else []
    paths = _image_paths(stack) if matches else {}
    return Trace([_call_of_apple(match, paths) for match in matches])


def _image_paths(stack: str) -> Mapping[str, str]:
    """The paths of images by their names and their identifiers, at the end of a crash report."""
    listed = stack.partition(_APPLE_IMAGES)[2][:MAX_READ]
    found: dict[str, str] = {}
    for match in _APPLE_IMAGE.finditer(listed):
        found[match[1]] = found[match[2].rpartition("/")[2]] = match[2]
    return found


def _call_of_apple(match: re.Match[str], paths: Mapping[str, str]) -> TracedCall:
    binary, name, file, line = match.groups()
    function = None if _APPLE_ADDRESS.match(name) else name
    return TracedCall(file, function, number(line), in_app=not _is_of_system(binary.strip(), paths))


def _is_of_system(binary: str, paths: Mapping[str, str]) -> bool:
    """Whether an image is of Apple's systems or an engine: by its path, else by its name."""
    if binary in _ENGINES:
        return True
    path = paths.get(binary)
    if path is not None:
        return _APPLE_PATH.match(path) is not None
    return binary.removesuffix(".dylib") in _APPLE_FRAMEWORKS or _APPLE_LIBRARY.match(binary) is not None


def find_dart(stack: str) -> Trace:
    """Read the calls. The exception is printed apart from them."""
    text = stack[:MAX_READ]
    calls = (
        [_call_of_dart(*match.groups()) for match in _DART_CALL.finditer(text)] if "#0" in text or "#1" in text else []
    )
    if not calls and (":" in text):
        found = (match.groups() for match in _DART_CHAINED.finditer(text))
        calls = [_call_of_dart(function, place, line, column) for place, line, column, function in found]
    return Trace(calls[:MAX_FOUND])


def _call_of_dart(function: str, place: str, line: str | None, column: str | None) -> TracedCall:
    return TracedCall(place, function, number(line), number(column), in_app=_DART_OF_LIBRARY.match(place) is None)


def find_unity(stack: str) -> Trace:
    """Read the calls, the latest first."""
    text = stack[:MAX_READ]
    if "(at " not in text and "[0x" not in text:
        return Trace()
    return Trace([_call_of_unity(match) for match in _UNITY_CALL.finditer(text)][:MAX_FOUND])


def _call_of_unity(match: re.Match[str]) -> TracedCall:
    name, arguments, file, line, source, row = match.groups()
    plain = name.replace(":", ".")
    path = file or source
    held = None if path.startswith(_UNITY_NO_FILE) else path
    return TracedCall(
        held, f"{plain} {arguments}", number(line or row) if held else None, in_app=_UNITY_PLATFORM.match(plain) is None
    )


# The readers in turn, and what they found last.

MAX_KNOWN = 4096
"""Characters of the longest stack trace that is remembered once it is read: errors repeat themselves."""

_READERS: Sequence[Callable[[str], Trace]] = (
    scripted.find_python,
    scripted.find_javascript,
    scripted.find_php,  # before what its SDK imitates
    compiled.find_jvm,
    compiled.find_dotnet,
    compiled.find_go,
    scripted.find_ruby,
    find_elixir,
    compiled.find_rust,
    compiled.find_native,
)
_NEWER: Sequence[Callable[[str], Trace]] = (
    find_unity,
    find_dart,
    find_apple,
    find_clojure,
    find_haskell,
    find_ocaml,
    scripted.find_lua,
    scripted.find_perl,
    scripted.find_powershell,
    scripted.find_r,
)
"""Readers since version 3 of the grouping (G-198)."""
_BEFORE: Mapping[Callable[[str], Trace], Callable[[str], Trace]] = {
    scripted.find_javascript: scripted.find_javascript_before,
    compiled.find_jvm: compiled.find_jvm_before,
    scripted.find_php: scripted.find_php_before,
}


def read_trace(stack: str) -> Trace:
    """Read a stack trace: the exception that was reported, not its causes. An unknown form has no calls."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _read(stack)


def read_before(stack: str) -> Trace:
    """Read a stack trace as before version 3 of the grouping (G-198)."""
    return _first([_BEFORE.get(find, find) for find in _READERS], stack)


def _read(stack: str) -> Trace:
    found = _first(_READERS, stack)
    return found if found.calls else _first(_NEWER, stack)._replace(newer=True)


def _first(readers: Sequence[Callable[[str], Trace]], stack: str) -> Trace:
    for find in readers:
        trace = find(stack)
        if trace.calls:
            return trace
    return Trace()


_known = lru_cache(512)(_read)
