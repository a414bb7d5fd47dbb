"""Stack traces of apps: of Apple's systems, of Dart and Flutter, and of Unity and Mono. Pure.

Apple's are read as a crash report or `callStackSymbols` writes them, Dart's as the language and its package for chains
do. Unity names functions with the types of their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

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
