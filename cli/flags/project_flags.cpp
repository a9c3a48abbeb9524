#include "cli/flags/project_flags.h"

#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"

namespace crumb::cli {

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

}  // namespace crumb::cli
