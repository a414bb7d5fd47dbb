"""The migrated schema: every tenant table leads with its project, every read model has the columns of its row."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

import msgspec
import psycopg
import pytest

from projections.kernel import Row
from service.registry import machines, read_models

Sql = psycopg.Connection[Any]

# What belongs to no project: the log's own order, the clock, bookkeeping of this installation.
GLOBAL_TABLES = {
    "checkpoints",
    "ingest_flushers",
    "installation",
    "log_checkpoints",
    "log_cosignatures",
    "log_index",
    "log_keys",
    "log_origins",
    "log_standing",
    "log_state",
    "log_tiles",
    "provider_clients",
    "rebuilds",
    "schema_functions",
    "schema_migrations",
    "service_clock",
    "task_runs",
    "telemetry_batches",
    "telemetry_copies",
    "topics_met",
    "unsequenced",
}
# The job library's own; a job holds no tenant data but ids.
LIBRARY_TABLES = ("procrastinate_",)


@pytest.fixture
def catalog(database_url: str) -> Any:
    with psycopg.connect(database_url) as connection:
        yield connection


def all_tables(catalog: Sql) -> set[str]:
    rows = catalog.execute(
        "select relname::text from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"
    )
    return {name for (name,) in rows}


def tenant_tables(catalog: Sql) -> list[str]:
    return sorted(
        name for name in all_tables(catalog) if name not in GLOBAL_TABLES and not name.startswith(LIBRARY_TABLES)
    )


def test_the_list_of_global_tables_is_true(catalog: Sql):
    """Each of them is there and holds no project's data: so a new table without a project cannot slip in unseen."""
    assert all_tables(catalog) >= GLOBAL_TABLES
    holding = catalog.execute(
        "select distinct table_name from information_schema.columns where column_name = 'project_id' "
        "and table_name = any(%s) and table_name <> 'rebuilds'",  # There it is a place in the log, not a tenant.
        (sorted(GLOBAL_TABLES),),
    ).fetchall()
    assert holding == []


def test_every_tenant_table_has_a_project(catalog: Sql):
    """As text that compares byte by byte, never null."""
    columns = catalog.execute(
        "select table_name, data_type, collation_name, is_nullable from information_schema.columns "
        "where column_name = 'project_id' and table_schema = 'public'"
    ).fetchall()
    found = {name: rest for name, *rest in columns}
    wrong = {name: found.get(name) for name in tenant_tables(catalog) if found.get(name) != ["text", "C", "NO"]}
    assert wrong == {}


def keys(catalog: Sql) -> list[tuple[str, str, list[str]]]:
    """Primary keys, unique constraints and unique indexes: (table, name, columns in order)."""
    return catalog.execute(
        "select t.relname::text, i.relname::text, array_agg(coalesce(a.attname::text, '(?)') order by k.place) "
        "from pg_index x join pg_class t on t.oid = x.indrelid join pg_class i on i.oid = x.indexrelid "
        "cross join unnest(x.indkey) with ordinality k(attnum, place) "
        "left join pg_attribute a on a.attrelid = t.oid and a.attnum = k.attnum and k.attnum > 0 "
        "where x.indisunique and t.relnamespace = 'public'::regnamespace and k.place <= x.indnkeyatts "
        "group by 1, 2 order by 1, 2"
    ).fetchall()


def test_every_tenant_table_leads_with_its_project(catalog: Sql):
    """In its primary key and in everything unique: only then can the schema be distributed by project."""
    tenants = set(tenant_tables(catalog))
    assert [
        (table, name, columns)
        for table, name, columns in keys(catalog)
        if table in tenants and columns[0] != "project_id"
    ] == []
    with_primary_key = {
        table
        for (table,) in catalog.execute(
            "select conrelid::regclass::text from pg_constraint where contype = 'p'"
        ).fetchall()
    }
    assert tenants - with_primary_key == set()


def test_foreign_keys_stay_inside_a_project(catalog: Sql):
    """Both sides start with the project, so that no row can refer to another tenant's."""
    rows = catalog.execute(
        "select c.conrelid::regclass::text, a.attname::text, b.attname::text from pg_constraint c "
        "join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1] "
        "join pg_attribute b on b.attrelid = c.confrelid and b.attnum = c.confkey[1] "
        "where c.contype = 'f' and c.connamespace = 'public'::regnamespace"
    ).fetchall()
    own = [row for row in rows if not row[0].startswith(LIBRARY_TABLES)]
    assert {(here, there) for _, here, there in own} <= {("project_id", "project_id")}


def test_key_columns_compare_byte_by_byte(catalog: Sql):
    """Comparing read models walks table and history in one order; a locale's order would not be Python's."""
    rows = catalog.execute(
        "select c.conrelid::regclass::text, a.attname::text, coalesce(l.collname::text, '') from pg_constraint c "
        "cross join unnest(c.conkey) k join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k "
        "left join pg_collation l on l.oid = a.attcollation "
        "where c.contype in ('p', 'u') and a.atttypid = 'text'::regtype and c.connamespace = 'public'::regnamespace"
    ).fetchall()
    tenants = set(tenant_tables(catalog))
    assert [row for row in rows if row[0] in tenants and row[2] != "C"] == []


def column_type(field: Any) -> tuple[str, str]:
    """The SQL type and nullability that the type of a row's field asks for."""
    options = set(get_args(field)) if get_origin(field) in {Union, types.UnionType} else {field}
    nullable = "YES" if types.NoneType in options else "NO"
    options.discard(types.NoneType)
    if len(options) == 1:
        [only] = options
        scalar = {str: "text", int: "bigint", bool: "boolean"}.get(only)
        if scalar is None and get_origin(only) is not None and str(get_origin(only)) == "typing.Literal":
            scalar = "text"
        if scalar is None and isinstance(only, type) and issubclass(only, str):
            scalar = "text"
        if scalar is not None:
            return scalar, nullable
    return "jsonb", nullable


@pytest.mark.parametrize("name", sorted(read_models()))
def test_a_read_models_columns_are_its_rows_fields(catalog: Sql, name: str):
    """Names, types and nullability agree, and the key is the stream: so a rebuild can copy rows into a new table."""
    projection = read_models()[name]
    found = {
        column: (kind, nullable)
        for column, kind, nullable in catalog.execute(
            "select column_name, data_type, is_nullable from information_schema.columns where table_name = %s", (name,)
        ).fetchall()
    }
    hints = {field.name: field.type for field in msgspec.structs.fields(projection.row)}
    assert found == {field: column_type(kind) for field, kind in hints.items()}
    assert issubclass(projection.row, Row)
    assert projection.key == ("project_id", "id")
    [primary] = [columns for table, key, columns in keys(catalog) if table == name and key.endswith("_pkey")]
    assert primary == ["project_id", "id"]
    unique = [key for table, key, _ in keys(catalog) if table == name]
    assert len(unique) == 1, "an inline row belongs to its stream alone; no other index may have to fail"


def test_read_models_read_streams_that_exist():
    """Every kind that a projection names is the kind of a machine."""
    kinds = {kind for projection in read_models().values() for kind in projection.kinds}
    assert kinds <= set(machines())
