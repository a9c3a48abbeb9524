// Data of an ONNX model that lie beside it (TensorProto.external_data): the one rule of every reader here.
//
// The entries `location` (once), `offset` (0 without one) and `length` (the tensor's size, if it is there)
// say where; others, `checksum` among them, are not looked at. A location is a relative path with '/', which
// may hold "." parts but no "..", and leads to a file inside the folder of the model, links resolved, or
// inside the folder that the model's own file lies in where the model's path is a link (as in download
// caches, whose names are links into one folder). Paths that other systems take for absolute or for leaving
// the folder ("C:\x", "\x", "..\x") are refused everywhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/input_file.h"

namespace crumb {

struct OnnxExternalEntry {
  std::string_view key;
  std::string_view value;
};

struct OnnxExternalPlace {
  std::string path;  ///< relative to the model's folder, without "." parts
  std::uint64_t offset = 0;
};

/// Where the entries say that the `bytes` of a tensor lie, by the names alone. A Failure is the end of a
/// sentence about the tensor: "its external offset is 'x', expected ...".
Result<OnnxExternalPlace> place_onnx_external(std::span<const OnnxExternalEntry> entries,
                                              std::uint64_t bytes);

/// Where a model's external data may be.
class OnnxDataFolder {
 public:
  /// Nowhere: a model or tensor by itself.
  OnnxDataFolder() = default;
  /// Beside the file of a model, and beside the file that its path leads to.
  static OnnxDataFolder of_model(const std::filesystem::path& model);
  /// In a folder; an empty path is nowhere.
  static OnnxDataFolder at(const std::filesystem::path& folder);

  /// With `file` in the place of what is called `name` there: written, and not yet renamed.
  OnnxDataFolder with(const std::string& name, const std::filesystem::path& file) const;

  /// The file of a place. A Failure, the end of a sentence about the tensor, where links lead out of the
  /// folder or the file is not there.
  Result<std::filesystem::path> find(const OnnxExternalPlace& place) const;

  /// The same, opened: every tensor of a file shares it.
  Result<std::shared_ptr<const InputFile>> open(const OnnxExternalPlace& place) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path real_folder_;  ///< links resolved
  std::filesystem::path file_folder_;  ///< of the file that the model's path leads to
  std::shared_ptr<std::map<std::string, std::shared_ptr<const InputFile>>> opened_ =
      std::make_shared<std::map<std::string, std::shared_ptr<const InputFile>>>();
};

/// Whether a place with so many bytes lies in a file of `size` bytes; a Failure, the end of a sentence, where
/// it does not.
Status check_onnx_external(const OnnxExternalPlace& place, std::uint64_t bytes, std::uint64_t size);

}  // namespace crumb
