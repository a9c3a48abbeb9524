// What a page about a result says: plain figures and texts, which jobs/ fills in and three writers (write.h) turn
// into HTML, JSON and Markdown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace crumb::report {

/// A cell of a table, or the value of a fact.
struct Cell {
  Cell() = default;
  explicit Cell(std::string words) : text(std::move(words)) {}
  Cell(std::string shown, double value) : text(std::move(shown)), number(value) {}

  std::string text;              ///< as people read it; "": nothing is known
  std::optional<double> number;  ///< what the column is sorted by, and what the JSON has
};

struct Column {
  std::string key;   ///< in the JSON: lower case, digits and _
  std::string head;  ///< for people
  bool is_number = false;
};

struct Table {
  std::string key;  ///< in the JSON and as the address of its section: lower case, digits and _
  std::string title;
  std::string note;  ///< how to read it; may be ""
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  ///< each as many cells as columns
};

/// The table without the columns in which nothing is known.
Table without_empty_columns(const Table& table);

/// A line of the summary.
struct Fact {
  std::string name;
  Cell value;
  std::string note;  ///< may be ""
};

/// A model in a chart. Both numbers are finite.
struct Point {
  std::string name;
  std::string series;  ///< what has the same mark and colour
  double x = 0, y = 0;
  std::optional<double> low, high;  ///< of y, at 95 %
  bool is_on_front = false;         ///< no other point is better in both
};

/// y against x: a mark for each point, or a line through the points of each series.
struct Chart {
  std::string title, x, y;
  bool is_of_lines = false;
  std::vector<Point> points;
  std::optional<double> level;  ///< a dashed line at this y
  std::string level_name;
};

/// How often numbers fell into parts of equal width of [low, high].
struct Histogram {
  double low = 0, high = 0;
  std::vector<std::uint64_t> counts;
};

/// Of a layer's weights.
struct LayerHistograms {
  std::string model, layer, format;
  std::uint64_t seen = 0, all = 0;  ///< weights that were counted, and that there are
  std::optional<Histogram> codes;   ///< none where the layer is in floats
  Histogram values;
};

/// Bytes of pixels, rows from the top: of gray, or of red, green and blue.
struct Picture {
  std::string caption;
  std::size_t width = 0, height = 0, channels = 1;  ///< 1 or 3 channels
  std::vector<std::uint8_t> pixels;                 ///< [height, width, channels]
};

/// A sample that went wrong.
struct Sample {
  std::string model;
  std::uint64_t number = 0;  ///< from 0, in the order of the data
  std::vector<Fact> facts;
  std::vector<Picture> pictures;
  std::string text;  ///< what the sample says, of tasks of texts
};

struct Report {
  std::string kind;      ///< the verb: "eval"
  std::string title;     ///< of what
  std::string sentence;  ///< what came out, in one sentence
  std::vector<Fact> summary;
  std::vector<std::string> notes;  ///< warnings and notes of the job
  std::vector<Chart> charts;
  std::vector<Table> tables;
  std::vector<LayerHistograms> histograms;
  std::vector<Sample> samples;
  std::string samples_note;           ///< which these are
  std::string recipe;                 ///< YAML, as it was carried out; "": there is none
  std::vector<std::string> commands;  ///< that repeat it
  std::vector<std::pair<std::string, std::string>>
      made_with;  ///< versions, seed and the like: name and value
};

}  // namespace crumb::report
