"""Which rooms are mutated, and the tests that are to notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    name: str  # the folder
    archives: tuple  # the libraries that its own doctests need, as cmake/CrumbBuild.cmake calls them
    python: tuple  # the Python tests that reach it through the command

    @property
    def tests(self):
        """The folder of its own tests."""
        return f"tests/{self.name}"


ROOMS = {
    room.name: room
    for room in [
        Room(
            "formats/number",
            ("crumb_formats",),
            ("tests/formats/number/test_oracles.py", "tests/cli/test_cli.py", "tests/cli/test_cli_quantize.py"),
        ),
        Room(
            "quant",
            ("crumb_quant", "crumb_formats"),
            (
                "tests/formats/number/test_oracles.py",
                "tests/cli/test_cli_recipe.py",
                "tests/cli/test_cli_target.py",
                "tests/cli/test_cli_quantize.py",
                "tests/cli/test_cli_dequantize.py",
                "tests/cli/test_cli_memory.py",
                "tests/cli/test_cli_runs.py",
                "tests/cli/test_cli_messages.py",
            ),
        ),
        Room(
            "models/graph/accumulator",
            ("crumb_models_graph", "crumb_quant", "crumb_formats"),
            ("tests/cli/test_cli_verify_accumulator.py", "tests/cli/test_cli_run_accumulator.py"),
        ),
        Room(
            "models/graph/qonnx",
            ("crumb_models_graph", "crumb_quant", "crumb_formats"),
            (
                "tests/cli/test_cli_cost.py",
                "tests/cli/test_cli_crumb_graph.py",
                "tests/cli/test_cli_inspect_graph.py",
                "tests/export/test_export_files.py",
                "tests/export/qcdq/test_qcdq.py",
                "tests/cli/test_cli_verify_accumulator.py",
                "tests/cli/test_cli_lint.py",
            ),
        ),
        Room(
            "export",
            ("crumb_export", "crumb_models_graph", "crumb_quant", "crumb_formats"),
            (
                "tests/export/qcdq/test_qcdq.py",
                "tests/export/lint/test_lint_rules.py",
                "tests/export/qcdq/test_qcdq_networks.py",
                "tests/export/test_export_files.py",
                "tests/export/lint/test_lint_odd_files.py",
                "tests/cli/test_cli_lint.py",
                "tests/cli/test_cli_export_checkpoint.py",
                "tests/cli/test_cli_tokens.py",
                "tests/cli/test_cli_verify_accumulator.py",
            ),
        ),
    ]
}
