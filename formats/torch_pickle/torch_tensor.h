// What a call in a pickle means as a tensor: where its elements lie in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/stored_tensor.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_globals.h"
#include "formats/torch_pickle/torch_storages.h"

namespace crumb {

/// A tensor, or of which type that is none of ours ("a tensor of complex128").
struct TorchTensor {
  std::optional<StoredTensor> tensor;  ///< without its name
  std::string skipped;
};

class TorchTensors {
 public:
  /// Both must outlive this.
  TorchTensors(const PickleTree& tree, const TorchStorages& storages) : tree_(tree), storages_(storages) {}

  bool is_tensor(PickleId id) const;

  /// A quantized tensor is the floats that its codes stand for. A Failure where the call is damaged, or its
  /// view leaves its storage, or the storage is not there, and of sparse, meta and nested tensors, which says
  /// what to save instead. Precondition: is_tensor(id).
  Result<TorchTensor> tensor(PickleId id) const { return tensor(id, true); }

  /// "an integer", "a sparse tensor": any value, for people.
  std::string describe(PickleId id) const;

 private:
  struct Storage;
  Result<TorchTensor> tensor(PickleId id, bool may_be_quantized) const;
  Result<TorchTensor> rebuild(TorchRole role, const std::vector<PickleId>& arguments) const;
  Result<TorchTensor> rebuild_quantized(const std::vector<PickleId>& arguments) const;
  std::optional<Failure> read_quantizer(const std::vector<PickleId>& quantizer, AffineCodes& affine) const;
  Result<StoredTensor> place(const Storage& storage, std::uint64_t element_bytes,
                             const std::vector<PickleId>& arguments) const;
  Result<StoredTensor> parameters(PickleId id, const char* what, std::initializer_list<DType> types) const;
  Result<Storage> storage(PickleId id) const;
  Result<std::vector<std::uint64_t>> sizes(PickleId id, const char* what) const;
  const TorchGlobal* role_of(PickleId global) const;
  std::vector<PickleId> arguments(PickleId tuple) const;
  Status check_metadata(PickleId id) const;

  const PickleTree& tree_;
  const TorchStorages& storages_;
};

}  // namespace crumb
