// Titles that group a verb's flags in its help and its man page: flags of one job go together.
#pragma once

#include <CLI/CLI.hpp>

namespace crumb::cli {

inline constexpr const char *kInputFlags = "Input", *kOutputFlags = "Output",
                            *kQuantizationFlags = "Quantization", *kNetworkFlags = "Quantization of networks",
                            *kSampleFlags = "Samples", *kTrainingFlags = "Training",
                            *kRunningFlags = "Running";

/// Puts the flags that are added to the verb from here on under the title.
inline void flag_group(CLI::App& verb, const char* title) { verb.option_defaults()->group(title); }

}  // namespace crumb::cli
