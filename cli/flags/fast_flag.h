// The flag --fast, for every verb that runs networks on Crumb's own kernels.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/flags/flag_group.h"
#include "runtime/operator.h"

namespace crumb::cli {

inline void add_fast_flag(CLI::App& verb, bool& fast) {
  verb.add_flag("--fast", fast,
                "What quantized weights are multiplied by becomes bytes, one scale a row: faster, and not "
                "the bits "
                "that the network says")
      ->group(kRunningFlags);
}

inline runtime::Promise promise_of(bool fast) {
  return fast ? runtime::Promise::kFast : runtime::Promise::kExact;
}

}  // namespace crumb::cli
