// crumb formats: lists the number formats, and every value of one.
#include <cmath>
#include <iostream>

#include "base/text/nearest_name.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "formats/number/block_format.h"
#include "formats/number/number_format.h"
#include "quant/quant_spec.h"

namespace crumb::cli {
namespace {

struct FormatsFlags {
  std::string name;
  bool values = false, json = false;
};

std::string grid_text(const NumberFormat& f) {
  switch (f.grid) {
    case Grid::kInteger:
      return f.name == "ternary" ? "-1, 0, 1" : std::string(f.is_signed ? "signed" : "unsigned") + " integer";
    case Grid::kHalfInteger: return "half-integer, no zero";
    case Grid::kBinary: return "-1, 1";
    case Grid::kMinifloat: {
      static constexpr std::string_view kSpecials[] = {"", ", inf and NaN", ", NaN", ", NaN, no -0"};
      return "float, bias " + std::to_string(f.bias) +
             std::string(kSpecials[static_cast<size_t>(f.specials)]);
    }
    case Grid::kCodebook: return f.learned ? "codebook learned per tensor" : "normal quantiles";
    case Grid::kExponent: break;
  }
  return "power of two, for scales";
}

std::string number_text(float value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

/// A number format, or the elements of a block format.
struct Named {
  std::string_view name;
  const NumberFormat& number;
  const BlockFormat* block = nullptr;

  /// Returns the fixed point of a block format's elements (MXINT8: code * 2^-6).
  float unit() const { return std::ldexp(1.0F, block ? block->scale_exponent : 0); }
  float largest() const { return number.largest_value(number.default_range()) * unit(); }

  /// Returns the codes that the quantizer may emit (integers) or every bit pattern (floats), with their
  /// values; none for learned codebooks, which have no values of their own.
  std::vector<std::pair<int, float>> code_values() const {
    std::vector<std::pair<int, float>> pairs;
    if (number.learned) return pairs;
    const auto table = value_table(number);
    const Range range = number.default_range();
    for (int code = number.least_code(range); code <= number.greatest_code(range); ++code) {
      pairs.emplace_back(code, table[number.bits_of(code)] * unit());
    }
    return pairs;
  }
};

Json format_json(const Named& format) {
  Json json;
  json["name"] = format.name;
  json["bits"] = format.number.bits;
  json["grid"] = grid_text(format.number);
  json["largest"] = json_number(static_cast<double>(format.largest()));
  if (!format.block) return json;
  json["element"] = format.block->element;
  json["block"] = format.block->block;
  json["scale"] = scale_format_row(format.block->scale).name;
  return json;
}

Json values_json(const Named& format) {
  Json json;
  json["name"] = format.name;
  json["bits"] = format.number.bits;
  json["codes"] = Json::array();
  for (const auto& [code, value] : format.code_values()) {
    Json entry;
    entry["code"] = code;
    entry["value"] = json_number(static_cast<double>(value));
    json["codes"].push_back(std::move(entry));
  }
  return json;
}

void print_all() {
  std::vector<std::vector<std::string>> rows{{"format", "bits", "largest", "values"}};
  for (const NumberFormat& f : number_formats()) {
    rows.push_back({std::string(f.name), std::to_string(f.bits),
                    number_text(f.largest_value(f.default_range())), grid_text(f)});
  }
  print_table(rows);
  std::cout << "\n";
  rows = {{"block format", "element", "block", "scale", "bits per weight"}};
  for (const BlockFormat& b : kBlockFormats) {
    const double bits = find_number_format(b.element)->bits +
                        8.0 * scale_format_row(b.scale).bytes / static_cast<double>(b.block);
    rows.push_back({std::string(b.name), std::string(b.element), std::to_string(b.block),
                    std::string(scale_format_row(b.scale).name), fixed(bits, 2)});
  }
  print_table(rows);
  std::cout << "\n";
  rows = {{"scheme", "spec", "what it is"}};
  for (const Scheme& s : schemes()) {
    rows.push_back({std::string(s.name), s.spec.empty() ? "-" : std::string(s.spec), std::string(s.summary)});
  }
  print_table(rows);
  std::cout << "\n" << spec_grammar() << "\n";
}

void print_one(const Named& format, bool values) {
  const NumberFormat& number = format.number;
  std::cout << format.name << ": " << number.bits << " bits, " << grid_text(number) << ", largest value "
            << number_text(format.largest()) << "\n";
  if (format.block) {
    std::cout << "elements " << format.block->element << " in blocks of " << format.block->block
              << ", scales " << scale_format_row(format.block->scale).name << "\n";
  }
  if (!values) return;
  if (number.learned) {
    std::cout << "its " << (1 << number.bits) << " values are learned for each tensor\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{"code", "value"}};
  for (const auto& [code, value] : format.code_values())
    rows.push_back({std::to_string(code), number_text(value)});
  print_table(rows);
}

void formats_verb(const FormatsFlags& options) {
  if (options.name.empty()) {
    if (options.values)
      throw usage_error("--values needs the name of a format, as in crumb formats e2m1 --values");
    if (!options.json) return print_all();
    Json json;
    json["formats"] = Json::array();
    for (const NumberFormat& f : number_formats()) json["formats"].push_back(format_json({f.name, f}));
    json["block_formats"] = Json::array();
    for (const BlockFormat& b : kBlockFormats) {
      json["block_formats"].push_back(format_json({b.name, *find_number_format(b.element), &b}));
    }
    return print_json(json);
  }
  const BlockFormat* block = find_block_format(options.name);
  const NumberFormat* number = find_number_format(block ? block->element : options.name);
  if (!number) {
    for (const Scheme& scheme : schemes()) {
      if (scheme.name != options.name) continue;
      throw usage_error("'" + options.name + "' is a scheme, expected a number format or block format" +
                        (scheme.spec.empty() ? "" : "; its spec is " + std::string(scheme.spec)));
    }
    std::vector<std::string_view> names;
    for (const NumberFormat& f : number_formats()) names.push_back(f.name);
    for (const BlockFormat& b : kBlockFormats) names.push_back(b.name);
    throw usage_error(unknown_name("format", options.name, names));
  }
  const Named format{options.name, *number, block};
  if (!options.json) return print_one(format, options.values);
  print_json(options.values ? values_json(format) : format_json(format));
}

}  // namespace

void add_formats(CLI::App& app) {
  auto options = std::make_shared<FormatsFlags>();
  CLI::App* verb = app.add_subcommand("formats", "List the number formats, block formats and schemes");
  verb->add_option("name", options->name, "One format")->type_name("FORMAT");
  verb->add_flag("--values", options->values,
                 "Every code of the format and its value, before scale and zero point")
      ->group(kOutputFlags);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer("Example:\n  crumb formats e2m1 --values");
  verb->callback([options] { formats_verb(*options); });
}

}  // namespace crumb::cli
