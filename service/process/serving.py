"""The API and the worker as processes: `python -m service.process.serving <parent process number>`.

The process started here loads everything, makes the application, and then holds the socket and watches over its copies:
`SERVICE_WORKERS` processes that serve, and the worker. They share what it has loaded, and a new one is there at once.
It has one thread, and opens nothing but the socket; the copies open what they need.
"""

import gc
import sys

from service.process.children import die_with_parent, leave, wait_for_start


def main(parent: int) -> None:
    """Serve and work until SIGTERM, or until the parent ends."""
    die_with_parent(parent)
    gc.disable()  # while loading, nearly all that is made stays: to look for garbage takes a quarter of the time
    from service.process.apiserver import load  # noqa: PLC0415 - without the collector

    server = load()
    gc.freeze()  # what is loaded is never garbage, and a look at it would copy its pages
    gc.enable()
    wait_for_start()
    server.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
    leave()
