// crumb compare: the differences of the same tensors in two sources.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/within.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "jobs/compared_tensors.h"
#include "quant/distortion.h"
#include "quant/packed/packed_stream.h"

namespace crumb::cli {
namespace {

struct CompareFlags {
  std::string a, b, key;
  bool json = false;
};

struct Row {
  std::string name;
  Distortion distortion;
  double exact_fraction() const {
    return distortion.count == 0
               ? 1.0
               : static_cast<double>(distortion.exact) / static_cast<double>(distortion.count);
  }
};

/// Names that only one side has are an error: comparing the rest would hide them.
void require_same_names(const jobs::ComparedTensors& a, const jobs::ComparedTensors& b,
                        const CompareFlags& options) {
  std::string message;
  size_t missing = 0;
  const auto look = [&](const jobs::ComparedTensors& here, const jobs::ComparedTensors& there,
                        const std::string& path) {
    for (const jobs::ComparedTensors::Row& tensor : here.rows()) {
      if (!there.find(tensor.name) && missing++ < 20)
        message += "\n  " + quote_text(path) + " lacks " + printable(tensor.name);
    }
  };
  look(a, b, options.b);
  look(b, a, options.a);
  if (missing == 0) return;
  if (missing > 20) message += "\n  and " + std::to_string(missing - 20) + " more";
  throw Error("the two do not hold the same tensors:" + message);
}

Distortion distortion_of(ValueStream& reference, ValueStream& value) {
  DistortionSum sum;
  for (auto x = reference.next(kStreamPiece); !x.empty(); x = reference.next(kStreamPiece)) {
    check_interrupt();
    sum.add(x, value.next(x.size()));
  }
  return sum.result();
}

void compare_verb(const CompareFlags& options) {
  const jobs::ComparedTensors a = jobs::ComparedTensors::open(options.a, options.key);
  const jobs::ComparedTensors b = jobs::ComparedTensors::open(options.b);
  require_same_names(a, b, options);
  std::vector<Row> rows;
  {
    Progress progress("comparing", "tensors", a.rows().size(), 0);
    for (const jobs::ComparedTensors::Row& tensor : a.rows()) {
      check_interrupt();
      const jobs::ComparedTensors::Row& other = *b.find(tensor.name);
      if (tensor.shape != other.shape) {
        throw Error("tensor " + quote_text(tensor.name) + " has shape " + shape_text(tensor.shape) + " in " +
                    quote_text(options.a) + " and " + shape_text(other.shape) + " in " +
                    quote_text(options.b));
      }
      try {
        rows.push_back({tensor.name, distortion_of(*a.stream(tensor), *b.stream(other))});
      } catch (const Error& error) {
        throw within("tensor " + quote_text(tensor.name), error);
      }
      progress.update(rows.size(), 0);
    }
  }
  std::ranges::stable_sort(rows, {}, [](const Row& row) {  // NaN, which has no order, comes as the worst
    const double sqnr = row.distortion.sqnr_db;
    return std::isnan(sqnr) ? -std::numeric_limits<double>::infinity() : sqnr;
  });
  if (options.json) {
    Json json;
    json["tensors"] = Json::array();
    for (const Row& row : rows) {
      Json entry;
      entry["name"] = row.name;
      entry["sqnr_db"] = json_sqnr(row.distortion.sqnr_db);
      entry["max_abs_error"] = json_number(row.distortion.max_abs_error);
      entry["mean_abs_error"] = json_number(row.distortion.mean_abs_error);
      entry["exact_fraction"] = row.exact_fraction();
      json["tensors"].push_back(std::move(entry));
    }
    return print_json(json);
  }
  std::vector<std::vector<std::string>> table{{"tensor", "SQNR dB", "max error", "mean error", "exact"}};
  for (const Row& row : rows) {
    table.push_back({row.name, fixed(row.distortion.sqnr_db, 2), fixed(row.distortion.max_abs_error, 6),
                     fixed(row.distortion.mean_abs_error, 6), fixed(100 * row.exact_fraction(), 1) + " %"});
  }
  print_table(table);
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareFlags>();
  CLI::App* verb =
      app.add_subcommand("compare", "Show per tensor what a model lost against another, worst first");
  verb->add_option("a", options->a, "The reference: a checkpoint of any kind, or a packed file")
      ->type_name("MODEL")
      ->required();
  verb->add_option("b", options->b, "The other: likewise")->type_name("MODEL")->required();
  verb->add_option("--key", options->key, "The entry of a PyTorch file that is the model, where A is one")
      ->type_name("NAME")
      ->group(kInputFlags);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "SQNR is that of B's values against A's.\n\nExample:\n  crumb compare all-MiniLM-L6-v2 minilm.crumb");
  verb->callback([options] { compare_verb(*options); });
}

}  // namespace crumb::cli
