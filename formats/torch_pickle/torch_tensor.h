// What a call in a pickle means as a tensor: where its elements lie in the archive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/stored_tensor.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_archive.h"
#include "formats/torch_pickle/torch_globals.h"

namespace crumb {

/// A tensor, or why it is none that can be read ("a sparse tensor").
struct TorchTensor {
  std::optional<StoredTensor> tensor;  ///< without its name
  std::string skipped;
};

class TorchTensors {
 public:
  /// Both must outlive this.
  TorchTensors(const PickleTree& tree, const TorchArchive& archive) : tree_(tree), archive_(archive) {}

  bool is_tensor(PickleId id) const;

  /// A Failure where the call is damaged, or its view leaves its storage, or the storage is not there.
  /// Precondition: is_tensor(id).
  Result<TorchTensor> tensor(PickleId id) const;

  /// "an integer", "a sparse tensor": any value, for people.
  std::string describe(PickleId id) const;

 private:
  struct View;
  struct Storage;
  Result<TorchTensor> rebuild(TorchRole role, const std::vector<PickleId>& arguments) const;
  Result<Storage> storage(PickleId id) const;
  Result<std::vector<std::uint64_t>> sizes(PickleId id, const char* what) const;
  const TorchGlobal* role_of(PickleId global) const;
  std::vector<PickleId> arguments(PickleId tuple) const;
  Status check_metadata(PickleId id) const;

  const PickleTree& tree_;
  const TorchArchive& archive_;
};

}  // namespace crumb
