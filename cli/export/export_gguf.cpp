#include "cli/export/export_gguf.h"

#include <filesystem>
#include <iostream>

#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/within.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/gguf/keep_codes.h"
#include "export/gguf/to_gguf.h"
#include "jobs/checkpoint_notes.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

std::string counted_kinds(const std::map<std::string, std::size_t>& kinds) {
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

void print_gguf(const std::string& output, const exporting::GgufReport& report, bool json) {
  if (json)
    return print_json({{"output", output},
                       {"to", kGgufForm},
                       {"bytes", report.bytes},
                       {"types", report.types},
                       {"notes", report.notes}});
  for (const std::string& note : report.notes) std::cerr << "note: " << printable(note) << "\n";
  std::cout << output << "  gguf, tensors: " << counted_kinds(report.types) << ", " << megabytes(report.bytes)
            << "; read back, all numbers are the same\n";
}

void print_packed(const std::string& output, const exporting::PackReport& report, bool json) {
  if (json)
    return print_json(
        {{"output", output}, {"bytes", report.bytes}, {"specs", report.specs}, {"notes", report.notes}});
  for (const std::string& note : report.notes) std::cerr << "note: " << printable(note) << "\n";
  std::cout << output << "  packed, tensors: " << counted_kinds(report.specs) << ", "
            << megabytes(report.bytes) << "; codes are as they were\n";
}

}  // namespace

void write_export_gguf(const std::string& input, const std::string& output, bool json) {
  if (std::filesystem::path(output).extension() != ".gguf")
    throw usage_error("the output " + quote_text(output) + " is GGUF, give a name that ends in .gguf");
  refuse_overwriting_inputs({input}, output);
  claim_output(output);
  const TensorSource source = TensorSource::open(input);
  if (source.checkpoint()) refuse_overwriting_inputs(source.checkpoint()->input_paths(), output);
  if (source.checkpoint() && source.kind() != "gguf") jobs::note_reading(*source.checkpoint(), terminal());
  try {
    print_gguf(output, exporting::write_gguf(source, output), json);
  } catch (const Error& error) {
    throw within(quote_text(input), error);
  }
}

bool is_between_gguf_and_packed(const std::string& input, const std::string& output) {
  const std::string from = std::filesystem::path(input).extension(),
                    to = std::filesystem::path(output).extension();
  return to == ".gguf" || (from == ".gguf" && to == ".crumb");
}

void convert_gguf(const std::string& input, const std::string& output, bool json) {
  if (std::filesystem::path(output).extension() == ".gguf") return write_export_gguf(input, output, json);
  refuse_overwriting_inputs({input}, output);
  claim_output(output);
  const Checkpoint file = Checkpoint::open(input).take();
  if (file.kind() != "gguf")
    throw Error(quote_text(input) + " is no GGUF file: found a " + std::string(file.kind()));
  try {
    print_packed(output, exporting::pack_gguf(file, output), json);
  } catch (const Error& error) {
    throw within(quote_text(input), error);
  }
}

}  // namespace crumb::cli
