// crumb doctor: which parts of Crumb are on this machine, and how to get the rest.
#include <cstdlib>
#include <iostream>

#include "base/files/text.h"
#include "base/processor_facts.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/installation.h"
#include "cli/output.h"

namespace crumb::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// Returns " (CRUMB_ISA=avx2)" where the environment variable is set.
std::string said_by(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? " (" + std::string(name) + "=" + value + ")" : "";
}

Json part_json(const std::optional<Installation::Part>& part) {
  return part ? Json{{"version", part->version}, {"path", part->path}} : Json();
}

Json installation_json(const Installation& found) {
  Json json;
  json["crumb"] = part_json(found.crumb);
  json["libcrumb"] = part_json(found.libcrumb);
  json["onnx"] = {{"version", found.onnx}};
  json["protobuf"] = {{"version", found.protobuf}};
  json["engine"] = Json();
  if (found.engine)
    json["engine"] = {
        {"path", found.engine->path}, {"libtorch", found.engine->version}, {"devices", found.devices}};
  json["instruction_sets"] = {{"there", found.sets_there}, {"used", found.sets_used}};
  json["threads"] = {{"used", found.threads}, {"processors", found.processors}};
  json["data"] = {{"folder", found.data}, {"there", found.data_sets}};
  json["missing"] = Json::array();
  for (const Installation::Lack& lack : found.lacks)
    json["missing"].push_back(
        {{"what", lack.what}, {"needed_by", lack.needed_by}, {"command", lack.command}});
  json["faults"] = Json::array();
  for (const Installation::Fault& fault : found.faults)
    json["faults"].push_back({{"what", fault.what}, {"command", fault.command}});
  return json;
}

std::string part_text(const std::optional<Installation::Part>& part) {
  return part ? part->version + "  " + part->path : "none";
}

void print_installation(const Installation& found) {
  const std::string sets = joined(found.sets_there, ", "), used = joined(found.sets_used, ", ");
  print_table({{"part", "what is there"},
               {"crumb", part_text(found.crumb)},
               {"libcrumb", part_text(found.libcrumb)},
               {"ONNX", found.onnx},
               {"protobuf", found.protobuf},
               {"LibTorch", found.engine ? found.engine->version + "  " + found.engine->path + ", on " +
                                               joined(found.devices, ", ")
                                         : "none"},
               {"instructions", sets + "; used: " + (used == sets ? "all" : used) + said_by("CRUMB_ISA") +
                                    (are_tiles_refused() ? "; the system does not allow AMX's tiles" : "")},
               {"threads", std::to_string(found.threads) + " on " + std::to_string(found.processors) +
                               " processors" + said_by("CRUMB_THREADS")},
               {"data sets",
                found.data + ": " + (found.data_sets.empty() ? "none" : joined(found.data_sets, ", "))}});
  for (const Installation::Fault& fault : found.faults)
    std::cout << "\nbroken: " << printable(fault.what) << "\n  mended by: " << fault.command << "\n";
  for (const Installation::Lack& lack : found.lacks) {
    std::cout << "\nmissing: " << printable(lack.what) << "\n";
    for (const std::string& job : lack.needed_by) std::cout << "  needed by: " << job << "\n";
    std::cout << "  brought by: " << lack.command << "\n";
  }
  if (found.faults.empty() && found.lacks.empty()) std::cout << "\nnothing is missing\n";
}

void doctor_verb(bool json) {
  const Installation found = find_installation();
  json ? print_json(installation_json(found)) : print_installation(found);
  if (!found.faults.empty()) throw CLI::RuntimeError(1);
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("doctor", "Say what of Crumb is on this machine, and what brings the rest");
  verb->add_flag("--json", *json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "Exit code 1 where a part is there and cannot be used; what is only missing is no failure.\n\n"
      "Example:\n"
      "  crumb doctor --json");
  verb->callback([json] { doctor_verb(*json); });
}

}  // namespace crumb::cli
