// Tables and plots of sweeps.
#include "cli/train_table.h"

#include <doctest/doctest.h>

#include <set>

#include "cli/train_sweep.h"
#include "formats/error.h"
#include "tests/support/samples.h"

namespace crumb::cli {
namespace {

using crumb::testing::says;

SweepTable small_table() {
  SweepTable table{.title = "width",
                   .axis = "width (bits)",
                   .task = "digits",
                   .network = "mlp",
                   .metric = "accuracy",
                   .miniature_of = "a <paper>",
                   .float_mean = 0.975,
                   .cells = {},
                   .values = {}};
  for (const char* series : {"A2Q", "A2Q+"}) {
    for (const double bits : {8.0, 9.0}) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        table.values.push_back({.series = series,
                                .label = std::to_string(static_cast<int>(bits)),
                                .x = bits,
                                .seed = seed,
                                .metric = 0.5 + bits / 100 + static_cast<double>(seed) / 1000});
      }
    }
  }
  table.values.pop_back();  // one point has two seeds
  table.cells = cells_of(table.values);
  return table;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("sweep tables: means and the spread of seeds") {
  const SweepTable table = small_table();
  REQUIRE(table.cells.size() == 4);
  CHECK(table.cells[0].mean == doctest::Approx(0.581));
  CHECK(table.cells[0].least == doctest::Approx(0.58));
  CHECK(table.cells[0].greatest == doctest::Approx(0.582));
  CHECK(table.cells[0].seeds == 3);
  CHECK(table.cells[3].seeds == 2);
  CHECK(table.cells[3].mean == doctest::Approx(0.5905));
  const auto rows = rows_of(table);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == std::vector<std::string>{"width (bits)", "A2Q", "A2Q+"});
  CHECK(rows[1] == std::vector<std::string>{"8", "0.5810 (0.5800 to 0.5820)", "0.5810 (0.5800 to 0.5820)"});
  CHECK(count(csv_of(table), "\n") == 12);
  CHECK(json_of(table).at("points").size() == 11);
}

TEST_CASE("sweep tables: what networks cost") {
  SweepTable table = small_table();
  CHECK_FALSE(has_costs(table));
  CHECK(csv_of(table).starts_with("series,at,seed,\"accuracy\"\n"));
  for (SweepValue& value : table.values) {
    value.cost = {.sparsity = 0.5 + static_cast<double>(value.seed) / 10,
                  .bops = 1000 * value.x + static_cast<double>(value.seed),
                  .bops_dense = 20000};
  }
  table.cells = cells_of(table.values);
  CHECK(has_costs(table));
  const auto rows = cost_rows_of(table);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == rows_of(table)[0]);
  CHECK(rows[1] == std::vector<std::string>{"8", "8001 (60.0 %)", "8001 (60.0 %)"});
  const Json json = json_of(table);
  CHECK(json.at("table")[0].at("bops") == 8001);
  CHECK(json.at("table")[0].at("bops_dense") == 20000);
  CHECK(json.at("points")[2].at("sparsity") == 0.7);
  CHECK(csv_of(table).starts_with(
      "series,at,seed,\"accuracy\",sparsity,bops,bops_dense\n\"A2Q\",8,0,0.58,0.5,8000,20000\n"));
}

TEST_CASE("sweep plots: axes, series, bands, and nothing that is markup") {
  const SweepTable table = small_table();
  const std::string svg = svg_of(table);
  CHECK(svg == svg_of(table));
  CHECK(count(svg, "<polyline") == 2);
  CHECK(count(svg, "<polygon") == 2);
  CHECK(count(svg, "<circle") == 4);
  CHECK(
      says(svg, {"width (bits)", "accuracy (fraction of the test set)", "A2Q+", "float", "a &lt;paper&gt;"}));
  CHECK(svg.find("nan") == std::string::npos);
  SweepTable one = table;  // a single place, a single value
  one.values.resize(1);
  one.cells = cells_of(one.values);
  one.float_mean = one.cells[0].mean;
  CHECK(svg_of(one).find("nan") == std::string::npos);
  CHECK(svg_of(one).find("inf") == std::string::npos);
}

TEST_CASE("sweeps: grids") {
  const qat::TrainRequest base{.task = "digits", .network = "", .data = "", .recipe = {.weights = {}}};
  const SweepGrid grid = grid_of("accumulator", base, 3);
  CHECK(grid.points.size() == 3 * (1 + 2 * 9));
  CHECK(grid.points[0].request.wrap_bits == std::vector<int>{16, 15, 14, 13, 12, 11, 10, 9, 8});
  CHECK_FALSE(grid.points[0].request.recipe.accumulator);
  CHECK(grid.points[3].request.recipe.accumulator->bits == 16);
  std::set<std::string> names;
  for (const std::string_view sweep : sweep_names()) {
    for (const SweepPoint& point : grid_of(sweep, base, 2).points) CHECK(names.insert(point.name).second);
  }
  try {
    (void)grid_of("bit", base, 1);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(says(error.what(), {"'bit'", "'bits'"}));
  }
}

}  // namespace crumb::cli
