// Tables and plots of sweeps.
#include "training/table.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "tests/support/samples.h"
#include "training/narrowed.h"
#include "training/references.h"
#include "training/sweep.h"

namespace crumb::training {
namespace {

using crumb::testing::says;

SweepTable small_table() {
  SweepTable table{
      .title = "width",
      .axis = "width (bits)",
      .task = "digits",
      .network = "mlp",
      .metric = "accuracy",
      .miniature_of = "a <paper>",
      .references =
          {{.name = "float", .epochs = 40, .mean = 0.975, .least = 0.975, .greatest = 0.975},
           {.name = "float, as many epochs", .epochs = 100, .mean = 0.976, .least = 0.97, .greatest = 0.98}},
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
  const auto references = rows_of(table.references, table.metric);
  REQUIRE(references.size() == 3);
  CHECK(references[0] == std::vector<std::string>{"compared with", "epochs", "accuracy"});
  CHECK(references[1] == std::vector<std::string>{"float", "40", "0.9750"});
  CHECK(references[2] ==
        std::vector<std::string>{"float, as many epochs", "100", "0.9760 (0.9700 to 0.9800)"});
  CHECK(json_of(table).at("compared_with")[1].at("epochs") == 100);
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
  CHECK(says(svg, {"width (bits)", "accuracy (fraction of the test set)", "A2Q+", "float",
                   "float, as many epochs", "a &lt;paper&gt;"}));
  CHECK(count(svg, "stroke-dasharray") == 2);
  CHECK(svg.find("nan") == std::string::npos);
  SweepTable one = table;  // a single place, a single value
  one.values.resize(1);
  one.cells = cells_of(one.values);
  one.references = {{.name = "float", .mean = one.cells[0].mean}};
  CHECK(svg_of(one).find("nan") == std::string::npos);
  CHECK(svg_of(one).find("inf") == std::string::npos);
}

TEST_CASE("sweep tables: what they compare with, from the reports of all runs") {
  const auto report = [](double of_float, double longer) {
    return Json{{"metric", "psnr"},       {"float", of_float},
                {"float_longer", longer}, {"float_epochs", 20},
                {"epochs", 10},           {"references", {{"nearest", 28.5}, {"bicubic", 30.5}}}};
  };
  const auto rows = rows_of(references_of({report(30, 31), report(32, 32)}), "psnr");
  REQUIRE(rows.size() == 5);
  CHECK(rows[1] == std::vector<std::string>{"nearest", "-", "28.5000"});
  CHECK(rows[2] == std::vector<std::string>{"bicubic", "-", "30.5000"});
  CHECK(rows[3] == std::vector<std::string>{"float", "20", "31.0000 (30.0000 to 32.0000)"});
  CHECK(rows[4] == std::vector<std::string>{"float, as many epochs", "30", "31.5000 (31.0000 to 32.0000)"});
}

/// Runs at all widths up to W4A4, inner layers of 128 and of 64 terms, the score growing with the widths.
std::vector<Json> reports_of(const SweepGrid& grid, const char* metric) {
  std::vector<Json> reports;
  for (const SweepPoint& point : grid.points) {
    const int m = point.widths[1] - '0', n = point.widths[3] - '0';
    const auto layer = [&](int terms) {
      int bits = 1;
      for (const int most = terms * ((1 << (m - 1)) - 1) * ((1 << n) - 1); (1 << (bits - 1)) - 1 < most;)
        ++bits;
      return Json{{"bits_by_types", bits}};
    };
    reports.push_back(
        {{"metric", metric},
         {"quantized", m + 1.5 * n + 0.01 * static_cast<double>(point.request.seed)},
         {"accumulator", {{{"bits_by_types", 20}}, layer(128), layer(64), {{"bits_by_types", 20}}}}});
  }
  return reports;
}

TEST_CASE("sweeps: widths are narrowed until what their types allow fits, and the best that fit are taken") {
  tasks::TrainRequest base{.task = "digits", .network = "", .data = "", .recipe = {.weights = {}}};
  CHECK(narrowed_points(base).empty());
  CHECK(widths_text(base).empty());
  base.recipe.weights = QuantSpec::parse("int4:channel");
  base.recipe.activations = QuantSpec::parse_activations("uint4:tensor");
  base.recipe.accumulator = AccumulatorGoal{.bits = 12};
  SweepGrid grid;
  for (const SweepPoint& point : narrowed_points(base)) {
    CHECK_FALSE(point.request.recipe.accumulator);
    CHECK(point.widths == widths_text(point.request));
    for (const std::uint64_t seed : {0U, 1U}) {
      grid.points.push_back(point);
      grid.points.back().request.seed = seed;
    }
  }
  CHECK(grid.points.size() == 2 * 11);  // W4 to W2, A4 to A1, less W4A4
  for (const bool less : {false, true}) {
    CAPTURE(less);
    const std::vector<SweepValue> values =
        narrowed_values(grid, reports_of(grid, less ? "mse" : "accuracy"), 14, 8);
    std::map<std::string, std::string> widths;
    for (const SweepValue& value : values) widths[value.label] = value.widths;
    CHECK(values.size() == 2 * widths.size());
    // 128 terms: 3 * 15 * 128 takes 14 bits, 1 * 15 * 128 takes 12, 1 * 7 * 128 takes 11, 1 * 3 * 128 takes 10, 128
    // takes 9, and 8 bits hold nothing.
    const std::map<std::string, std::string> greatest{{"14", "W3A4"}, {"13", "W2A4"}, {"12", "W2A4"},
                                                      {"11", "W2A3"}, {"10", "W2A2"}, {"9", "W2A1"}};
    const std::map<std::string, std::string> least{{"14", "W2A1"}, {"13", "W2A1"}, {"12", "W2A1"},
                                                   {"11", "W2A1"}, {"10", "W2A1"}, {"9", "W2A1"}};
    CHECK(widths == (less ? least : greatest));
  }
  std::vector<Json> unknown = reports_of(grid, "accuracy");
  for (Json& report : unknown) report["accumulator"][1]["bits_by_types"] = nullptr;
  CHECK(narrowed_values(grid, unknown, 14, 8).empty());
}

TEST_CASE("sweep tables: widths that differ from row to row stand in the cells") {
  SweepTable table = small_table();
  for (SweepValue& value : table.values) {
    if (value.series == "A2Q" && value.label == "8") value.widths = "W2A1";
  }
  table.cells = cells_of(table.values);
  CHECK(rows_of(table)[1][1] == "0.5810 (0.5800 to 0.5820) W2A1");
  CHECK(csv_of(table).starts_with("series,at,seed,\"accuracy\",widths\n\"A2Q\",8,0,0.58,W2A1\n"));
  CHECK(json_of(table).at("table")[0].at("widths") == "W2A1");
  std::erase_if(table.cells, [](const SweepCell& cell) { return cell.series == "A2Q" && cell.label == "9"; });
  CHECK(rows_of(table)[2][1] == "-");
}

TEST_CASE("sweeps: grids") {
  const tasks::TrainRequest base{.task = "digits", .network = "", .data = "", .recipe = {.weights = {}}};
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

}  // namespace crumb::training
