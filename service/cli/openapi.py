"""`service openapi`: the schema document, from the code alone."""

import json
from pathlib import Path

import click

from service.cli.shared.common import say


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: standard output.")
@click.option("--base-url", default="http://127.0.0.1:8000", show_default=True, help="Server address in the document.")
def openapi(out: Path | None, base_url: str) -> None:
    """Print the OpenAPI 3.1 document of the API. Needs no database."""
    from service.http.app import schema_documents

    text = json.dumps(schema_documents().at(base_url), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        say(text.removesuffix("\n"))
    else:
        out.write_text(text, encoding="utf-8")
