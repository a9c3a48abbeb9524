// Writes GGUF 3 (layout: gguf.h): the contents are planned first, then the tensors' bytes come in the plan's
// order, in as many pieces as the caller likes. The file appears under its name when finish() returns.
//
//   GgufWriter writer("model.gguf",
//                     {.metadata = {{"general.architecture", std::string("llama")}}, .tensors = {...}});
//   for (tensor in the plan's order) writer.append(bytes of the tensor);
//   writer.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/files/output_file.h"
#include "formats/gguf/gguf.h"

namespace crumb {

/// A value to write. Vectors are arrays.
using GgufDatum = std::variant<std::uint32_t, std::int32_t, std::uint64_t, float, bool, std::string,
                               std::vector<std::int32_t>, std::vector<float>, std::vector<std::string>>;

struct GgufPair {
  std::string key;
  GgufDatum value;
};

struct GgufPlannedTensor {
  std::string name;
  const GgmlType* type = nullptr;    ///< a row of ggml_types()
  std::vector<std::uint64_t> shape;  ///< outermost axis first
};

struct GgufPlan {
  std::vector<GgufPair> metadata;  ///< in the file's order, "general.alignment" not among them
  std::vector<GgufPlannedTensor> tensors;
};

inline constexpr std::uint64_t kGgufAlignment = 32;  ///< of what is written

class GgufWriter {
 public:
  /// Throws Error where the output cannot be made, and where the reader would refuse the plan: names that are
  /// empty, longer than 63 bytes (tensors; ggml reads no more), not UTF-8 or not unique, more than four axes,
  /// rows that are not whole blocks.
  GgufWriter(const std::filesystem::path& path, GgufPlan plan);

  /// The next bytes of the data, in the order of the plan's tensors; padding between tensors is written here.
  /// Throws Error when writing fails, and where there are more bytes than planned.
  void append(std::span<const std::byte> bytes);

  /// Gives the file its name and returns its size. `check` gets the path of the whole file before that; if it
  /// throws, no file is left. Throws Error where bytes are missing.
  std::uint64_t finish(const std::function<void(const std::filesystem::path& written)>& check = {});

 private:
  void skip_complete();

  GgufPlan plan_;
  std::size_t current_ = 0;
  std::uint64_t missing_ = 0;  ///< bytes of the current tensor
  OutputFile file_;
};

}  // namespace crumb
