#include "cli/project_flags.h"

#include "base/error.h"
#include "cli/export_project.h"
#include "cli/flag_group.h"
#include "cli/number_checks.h"

namespace crumb::cli {
namespace {

enum Tool : unsigned { kHls4ml = 1, kFinn = 2 };

/// Of one of the tools, or of both.
struct ProjectFlag {
  const char* name;
  unsigned tools;
  bool (*is_given)(const ProjectFlags&);
};

constexpr ProjectFlag kFlags[] = {
    {"--backend", kHls4ml, [](const ProjectFlags& flags) { return !flags.backend.empty(); }},
    {"--io-type", kHls4ml, [](const ProjectFlags& flags) { return !flags.io_type.empty(); }},
    {"--strategy", kHls4ml, [](const ProjectFlags& flags) { return !flags.strategy.empty(); }},
    {"--reuse-factor", kHls4ml, [](const ProjectFlags& flags) { return flags.reuse_factor != 0; }},
    {"--board", kFinn, [](const ProjectFlags& flags) { return !flags.board.empty(); }},
    {"--target-fps", kFinn, [](const ProjectFlags& flags) { return flags.target_fps != 0; }},
    {"--part", kHls4ml | kFinn, [](const ProjectFlags& flags) { return !flags.part.empty(); }},
    {"--clock", kHls4ml | kFinn, [](const ProjectFlags& flags) { return flags.clock != 0; }},
    {"--data", kHls4ml | kFinn, [](const ProjectFlags& flags) { return !flags.data.empty(); }},
};

std::string form_of(unsigned tools) {
  const std::string both = std::string(kHls4mlProject) + " and " + std::string(kFinnProject);
  return tools == kHls4ml ? std::string(kHls4mlProject) : tools == kFinn ? std::string(kFinnProject) : both;
}

}  // namespace

void add_project_flags(CLI::App& verb, ProjectFlags& flags) {
  verb.add_option("--part", flags.part,
                  "Projects: the device (hls4ml's own for the backend; FINN: xc7z020clg400-1)")
      ->type_name("NAME")
      ->group("Projects");
  verb.add_option("--clock", flags.clock, "Projects: its period in nanoseconds (5)")
      ->type_name("NANOSECONDS")
      ->group("Projects")
      ->check(above_zero());
  verb.add_option("--data", flags.data, "Projects: samples to compare by, before those drawn")
      ->type_name("FILE")
      ->group("Projects");
  verb.add_option("--backend", flags.backend,
                  "hls4ml-project: Vitis, Vivado, Quartus, oneAPI or Catapult (Vitis)")
      ->type_name("Vitis|Vivado|Quartus|oneAPI|Catapult")
      ->group("Projects");
  verb.add_option("--io-type", flags.io_type, "hls4ml-project: io_parallel or io_stream (io_parallel)")
      ->group("Projects")
      ->check(CLI::IsMember({"io_parallel", "io_stream"}));
  verb.add_option("--reuse-factor", flags.reuse_factor,
                  "hls4ml-project: products that one multiplier does, one after the other (1)")
      ->type_name("PRODUCTS")
      ->group("Projects")
      ->check(at_least(1));
  verb.add_option("--strategy", flags.strategy, "hls4ml-project: Latency or Resource (Latency)")
      ->group("Projects")
      ->check(CLI::IsMember({"Latency", "Resource"}));
  verb.add_option("--target-fps", flags.target_fps,
                  "finn-project: samples per second that the folding is for (1000)")
      ->type_name("SAMPLES")
      ->group("Projects")
      ->check(at_least(1));
  verb.add_option("--board", flags.board, "finn-project: what build.py --synth is for (Pynq-Z1)")
      ->type_name("NAME")
      ->group("Projects");
}

void refuse_flags_of_other_projects(const ProjectFlags& flags, const std::string& form) {
  const unsigned tool = form == kHls4mlProject ? kHls4ml : form == kFinnProject ? kFinn : 0U;
  for (const ProjectFlag& flag : kFlags) {
    if ((flag.tools & tool) == 0 && flag.is_given(flags))
      throw usage_error(std::string(flag.name) + " is for --to " + form_of(flag.tools) + ", found --to " +
                        form);
  }
}

}  // namespace crumb::cli
