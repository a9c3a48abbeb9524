// Titles under which a verb's flags stand in its help and its man page: flags of one job together.
#pragma once

#include <CLI/CLI.hpp>

namespace crumb::cli {

inline constexpr const char *kInputFlags = "Input", *kOutputFlags = "Output",
                            *kQuantizationFlags = "Quantization", *kNetworkFlags = "Quantization of networks",
                            *kSampleFlags = "Samples", *kTrainingFlags = "Training",
                            *kRunningFlags = "Running";

/// Flags that are added to the verb from here on stand under the title.
inline void flag_group(CLI::App& verb, const char* title) { verb.option_defaults()->group(title); }

}  // namespace crumb::cli
