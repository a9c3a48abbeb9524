// The options of crumb export and crumb convert, and which of their flags each form of --to knows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/project_flags.h"
#include "cli/flags/torchscript_flags.h"

namespace crumb::cli {

struct ExportFlags {
  std::string input, output, accumulators, to, shard, dtype, adapter, weights_as, profile = "qonnx";
  std::vector<std::string> shapes, ranges;
  ProjectFlags project;
  TorchScriptFlags archive;
  std::int64_t opset = 0;
  bool weights_as_float = false, native_types = false, allow_arithmetic = false, integer_view = false;
  bool allow_approximate = false, without_adapters = false;
  bool json = false;
};

/// Flags that not every form knows; a form has the sum of those that it knows.
namespace export_flag {
inline constexpr std::uint32_t kProfile = 1u << 0;
inline constexpr std::uint32_t kOpset = 1u << 1;
inline constexpr std::uint32_t kShape = 1u << 2;
inline constexpr std::uint32_t kIntegerView = 1u << 3;
inline constexpr std::uint32_t kAllowApproximate = 1u << 4;
inline constexpr std::uint32_t kAccumulatorConfig = 1u << 5;
inline constexpr std::uint32_t kInputRange = 1u << 6;
inline constexpr std::uint32_t kWeightsAsFloat = 1u << 7;
inline constexpr std::uint32_t kNativeTypes = 1u << 8;
inline constexpr std::uint32_t kAllowArithmetic = 1u << 9;
inline constexpr std::uint32_t kWithoutAdapters = 1u << 10;
inline constexpr std::uint32_t kShard = 1u << 11;
inline constexpr std::uint32_t kDtype = 1u << 12;
inline constexpr std::uint32_t kName = 1u << 13;
inline constexpr std::uint32_t kHls4ml = 1u << 14;   ///< hls4ml's projects only
inline constexpr std::uint32_t kFinn = 1u << 15;     ///< FINN's projects only
inline constexpr std::uint32_t kProject = 1u << 16;  ///< both kinds of projects
inline constexpr std::uint32_t kWeightsAs = 1u << 17;
inline constexpr std::uint32_t kArchive = 1u << 18;  ///< what a TorchScript archive is called with
}  // namespace export_flag

/// A form that --to takes.
struct ExportForm {
  std::string_view name;
  std::uint32_t flags = 0;  ///< of export_flag::, that it knows
  void (*write)(const ExportFlags& options) =
      nullptr;  ///< writes the output and prints what it is; throws Error
};

/// Returns the form of that name. Throws usage Error, which names the nearest one.
const ExportForm& find_export_form(std::span<const ExportForm> forms, std::string_view name);

/// Throws usage Error where a flag is given that the form does not know; it names those that do.
void refuse_flags_of_other_forms(const ExportFlags& options, const ExportForm& form,
                                 std::span<const ExportForm> forms);

/// Whether any of these flags is given.
bool has_export_flags(const ExportFlags& options);

}  // namespace crumb::cli
