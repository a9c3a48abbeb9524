// The front, tables, CSV, JSON and plots of grids, over drawn rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "eval/grid_table.h"
#include "eval/output_scores.h"
#include "eval/pareto.h"
#include "tests/support/samples.h"

namespace crumb::eval {
namespace {

using crumb::testing::says;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Few values, so that many are equal.
double drawn_number(std::mt19937& random) {
  const double values[] = {-1, 0, 0.25, 1, 2, 1e300, kInfinite, -kInfinite, kNone};
  return values[random() % std::size(values)];
}

std::string drawn_text(std::mt19937& random) {
  const char* pieces[] = {"a", ",",        "\"",   "\n",   "\r",  "<b>", "&",
                          "'", "\xc3\xa9", "\x01", "\xff", "]]>", " ",   "\xef\xbf\xbe"};
  std::string text;
  for (std::size_t i = random() % 6; i > 0; --i) text += pieces[random() % std::size(pieces)];
  return text;
}

GridRow drawn_row(std::mt19937& random) {
  const auto maybe = [&] { return random() % 3 > 0; };
  GridRow row{.format = drawn_text(random), .activations = drawn_text(random), .method = drawn_text(random)};
  for (const Metric& metric : metrics()) {
    if (maybe()) row.scores[std::string(metric.name)] = drawn_number(random);
  }
  if (maybe()) row.bits = static_cast<double>(random() % 8) + 0.125;
  if (maybe()) row.bytes = random();
  if (maybe()) row.accumulator.by_types = static_cast<int>(random() % 40);
  if (maybe()) row.accumulator.by_weights = static_cast<int>(random() % 40);
  if (maybe()) row.accumulator.exact = static_cast<int>(random() % 40);
  if (maybe()) row.bops = static_cast<double>(random());
  row.note = drawn_text(random);
  row.failed = !maybe();
  row.seconds = static_cast<double>(random() % 1000) / 8;
  return row;
}

GridTable drawn_table(std::mt19937& random, std::size_t rows) {
  std::vector<GridRow> drawn;
  for (std::size_t i = 0; i < rows; ++i) drawn.push_back(drawn_row(random));
  return grid_table(drawn_text(random), metrics()[random() % metrics().size()],
                    costs()[random() % costs().size()], std::move(drawn));
}

/// Cells of CSV as RFC 4180 reads them, by a machine of its own.
std::vector<std::vector<std::string>> read_csv(const std::string& csv) {
  std::vector<std::vector<std::string>> lines(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    std::string& cell = lines.back().back();
    if (quoted && csv[i] == '"' && i + 1 < csv.size() && csv[i + 1] == '"') {
      cell += csv[i++];
    } else if (csv[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && csv[i] == ',') {
      lines.back().emplace_back();
    } else if (!quoted && csv[i] == '\n') {
      lines.emplace_back(1);
    } else {
      cell += csv[i];
    }
  }
  CHECK(!quoted);
  CHECK(lines.back() == std::vector<std::string>{""});  // the last line ends
  lines.pop_back();
  return lines;
}

/// Whether every element is closed in its order and nothing else looks like one.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos || xml.find('<', at + 1) < end) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (std::ranges::count(tag, '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.starts_with('/')) {
      if (open.empty() || open.back() != name.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("pareto front: by its definition, over drawn points") {
  std::mt19937 random(1);
  for (int run = 0; run < 300; ++run) {
    std::vector<CostAndScore> points(random() % 12);
    for (CostAndScore& point : points) point = {.cost = drawn_number(random), .score = drawn_number(random)};
    const std::vector<bool> front = pareto_front(points);
    REQUIRE(front.size() == points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      const CostAndScore& one = points[i];
      const bool is_beaten = std::ranges::any_of(points, [&](const CostAndScore& other) {
        return other.cost <= one.cost && other.score >= one.score &&
               (other.cost < one.cost || other.score > one.score);
      });
      const bool is_known = !std::isnan(one.cost) && !std::isnan(one.score);
      CAPTURE(one.cost);
      CAPTURE(one.score);
      CHECK(front[i] == (is_known && !is_beaten));
    }
  }
}

TEST_CASE("grid tables: the front is the better way of each metric, and never the float network's") {
  std::mt19937 random(2);
  for (int run = 0; run < 200; ++run) {
    const GridTable table = drawn_table(random, 1 + random() % 8);
    CHECK(!table.front[0]);
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      if (!table.front[i]) continue;
      for (std::size_t j = 1; j < table.rows.size(); ++j) {
        const auto cost = table.rows[j].cost(table.cost), score = table.rows[j].score(table.metric);
        if (!cost || !score || !(*cost <= *table.rows[i].cost(table.cost))) continue;
        const double here = *table.rows[i].score(table.metric);
        CHECK(!(table.metric.more_is_better ? *score > here : *score < here));
      }
    }
  }
}

TEST_CASE("grid tables: CSV gives every row back, whatever its texts hold") {
  std::mt19937 random(3);
  for (int run = 0; run < 200; ++run) {
    const GridTable table = drawn_table(random, 1 + random() % 5);
    const auto lines = read_csv(csv_of(table));
    REQUIRE(lines.size() == table.rows.size() + 1);
    CHECK(lines[0].back() == "seconds");
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < lines[0].size(); ++i) place[lines[0][i]] = i;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const GridRow& row = table.rows[i];
      const std::vector<std::string>& line = lines[i + 1];
      REQUIRE(line.size() == lines[0].size());
      CHECK(line[place.at("format")] == row.format);
      CHECK(line[place.at("activations")] == row.activations);
      CHECK(line[place.at("method")] == row.method);
      CHECK(line[place.at("note")] == row.note);
      CHECK(line[place.at("front")] == (table.front[i] ? "1" : "0"));
      CHECK(line[place.at("bytes")] == (row.bytes ? std::to_string(*row.bytes) : ""));
      for (const Metric& metric : metrics()) {
        const auto score = row.score(metric);
        const std::string& cell = line[place.at(std::string(metric.name))];
        CHECK(cell.empty() == !score.has_value());
        if (!score) continue;
        const double read = std::stod(cell);
        CHECK((read == *score || (std::isnan(read) && std::isnan(*score))));
      }
    }
  }
}

TEST_CASE("grid tables: JSON of a row is read back to the same row") {
  std::mt19937 random(4);
  for (int run = 0; run < 200; ++run) {
    GridRow row = drawn_row(random);
    row.format = row.activations = row.method = row.note = "x\"<";  // JSON is UTF-8
    const std::string text = json_of(row).dump();
    const GridRow read = row_of(nlohmann::json::parse(text), "it");
    CHECK(json_of(read).dump() == text);
    CHECK(read.bits == row.bits);
    CHECK(read.bytes == row.bytes);
    CHECK(read.accumulator == row.accumulator);
    CHECK(read.failed == row.failed);
    CHECK(read.scores.size() == row.scores.size());
  }
  for (const char* text : {"{}", "[]", "7", R"({"format": 1})"}) {
    try {
      (void)row_of(nlohmann::json::parse(text), "'cell'");
      FAIL("taken: " << text);
    } catch (const Error& error) {
      CHECK(says(error.what(), {"'cell'", "no row of a grid"}));
    }
  }
}

TEST_CASE("grid plots: sound XML with a point for each row that has one, whatever the rows hold") {
  std::mt19937 random(5);
  for (int run = 0; run < 200; ++run) {
    const GridTable table = drawn_table(random, 1 + random() % 7);
    const std::string svg = svg_of(table);
    CHECK(svg == svg_of(table));
    CHECK(svg.starts_with("<svg xmlns"));
    CHECK(is_balanced(svg));
    CHECK(svg.find('\x01') == std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    std::size_t points = 0, titles = 0;
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      const auto cost = table.rows[i].cost(table.cost), score = table.rows[i].score(table.metric);
      points += cost && score && std::isfinite(*cost) && std::isfinite(*score);
    }
    for (std::size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1))
      ++titles;
    CHECK(titles == points);
  }
}

TEST_CASE("output scores: by their definitions, over drawn outputs of files of several shapes") {
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0, 2);
  for (int run = 0; run < 200; ++run) {
    std::vector<ScoreShape> shapes;
    std::vector<float> expected, found;
    Labels labels;
    double squares = 0, cosine = 0, samples = 0, kl = 0, right = 0, counted = 0, same = 0, all = 0;
    for (std::size_t files = 1 + random() % 3; files > 0; --files) {
      const std::size_t in_file = 1 + random() % 4, rows = 1 + random() % 3, width = 1 + random() % 5;
      shapes.push_back({.samples = in_file, .width = width, .size = in_file * rows * width});
      for (std::size_t sample = 0; sample < in_file; ++sample) {
        double product = 0, wanted_square = 0, made_square = 0;
        for (std::size_t row = 0; row < rows; ++row) {
          const std::size_t begin = expected.size();
          double p_sum = 0, q_sum = 0;
          std::size_t p_most = 0, q_most = 0;
          for (std::size_t i = 0; i < width; ++i) {
            expected.push_back(normal(random));
            found.push_back(expected.back() + normal(random) / 4);
            const double p = expected.back(), q = found.back();
            squares += (p - q) * (p - q);
            product += p * q;
            wanted_square += p * p;
            made_square += q * q;
            p_sum += std::exp(p);
            q_sum += std::exp(q);
            if (expected[begin + i] > expected[begin + p_most]) p_most = i;
            if (found[begin + i] > found[begin + q_most]) q_most = i;
          }
          labels.classes.push_back(random() % 4 == 0 ? -100 : static_cast<std::int64_t>(random() % width));
          if (width == 1) continue;
          for (std::size_t i = 0; i < width; ++i) {
            const double p = std::exp(double(expected[begin + i])) / p_sum,
                         q = std::exp(double(found[begin + i])) / q_sum;
            kl += p * std::log(p / q);
          }
          ++all;
          same += p_most == q_most;
          if (labels.classes.back() < 0) continue;
          ++counted;
          right += static_cast<std::int64_t>(q_most) == labels.classes.back();
        }
        ++samples;
        cosine += product / std::sqrt(wanted_square * made_square);
      }
    }
    check_labels(labels, shapes);
    const Scores scores = score_outputs(expected, found, shapes, labels, 2.0);
    CHECK(scores.at("psnr") ==
          doctest::Approx(10 * std::log10(4 * static_cast<double>(expected.size()) / squares)));
    CHECK(scores.at("cosine") == doctest::Approx(cosine / samples));
    CHECK(scores.contains("kl") == (all > 0));
    CHECK(scores.contains("accuracy") == (counted > 0));
    if (all == 0) continue;
    CHECK(scores.at("kl") == doctest::Approx(kl / all));
    CHECK(scores.at("agreement") == doctest::Approx(same / all));
    if (counted > 0) CHECK(scores.at("accuracy") == doctest::Approx(right / counted));
  }
}

TEST_CASE("output scores: what is not finite, and labels that do not fit, are said") {
  const std::vector<float> two{1, 2}, bad{1, std::numeric_limits<float>::infinity()};
  const auto message = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const ScoreShape row{.samples = 1, .width = 2, .size = 2};
  const ScoreShapes shapes(&row, 1);
  CHECK(says(message([&] { (void)score_outputs(two, bad, shapes, {}, {}); }), {"output 1 of 2", "inf"}));
  CHECK(says(message([&] {
               check_labels({.classes = {0, 1}, .values = {}}, shapes);
             }),
             {"2 labels", "1 row of 2"}));
  CHECK(says(message([&] { check_labels({.classes = {2}, .values = {}}, shapes); }),
             {"label 0 is 2", "from 0 to 1"}));
  CHECK(says(message([&] { check_labels({.classes = {}, .values = {1}}, shapes); }), {"1 number", "2"}));
  const Scores same = score_outputs(two, two, shapes, {}, {});
  CHECK(same.at("psnr") == kInfinite);
  CHECK(same.at("kl") == 0);
  CHECK(score_outputs({}, {}, {}, {}, {}).empty());
}

}  // namespace crumb::eval
