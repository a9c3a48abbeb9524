#include "formats/torch_pickle/torch_tensor.h"

#include <algorithm>

#include "base/checked_size.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::size_t kMaxRank = 64;

/// Whether elements lie row-major without gaps, whatever axes of size 1 say.
bool is_row_major(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides) {
  std::uint64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != expected) return false;
    expected *= shape[axis];  // A partial product of an element count that fits.
  }
  return true;
}

/// The number of the view's last element; none where it does not fit 64 bits. No size is 0.
checked::Size last_element(std::uint64_t first, const std::vector<std::uint64_t>& shape,
                           const std::vector<std::uint64_t>& strides) {
  checked::Size last = first;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    last = checked::add(last, checked::multiply(shape[axis] - 1, strides[axis]));
  return last;
}

/// The checksum of a storage, where reading the tensor is reading all of it. 0 is what torch.save writes
/// where it is told not to compute checksums. A part of a storage is read alone.
void take_checksum(StoredTensor& tensor, std::uint64_t bytes, std::uint32_t checksum) {
  TensorPlace& place = tensor.place;
  const bool whole = !place.strides.empty() || (place.first == 0 && bytes == place.decoded);
  if (whole && checksum != 0) place.crc = checksum;
}

}  // namespace

struct TorchTensors::Storage {
  std::string_view key;
  const TorchGlobal* type = nullptr;
  TorchStoragePlace place;
  std::uint64_t bytes = 0;  ///< as the pickle says; they are at the place
};

const TorchGlobal* TorchTensors::role_of(PickleId global) const {
  return tree_.is(global, PickleKind::kGlobal) ? &torch_global(tree_.global(global)) : nullptr;
}

bool TorchTensors::is_tensor(PickleId id) const {
  if (!tree_.is(id, PickleKind::kCall)) return false;
  switch (torch_global(tree_.global(tree_.callee(id))).role) {
    case TorchRole::kRebuildTensor:
    case TorchRole::kRebuildTensorV2:
    case TorchRole::kRebuildTensorV3:
    case TorchRole::kWrapTensor:
    case TorchRole::kFromType:
    case TorchRole::kOnDevice:
    case TorchRole::kRebuildQTensor:
    case TorchRole::kOtherTensor:
    case TorchRole::kTensorType: return true;
    default: return false;
  }
}

std::string TorchTensors::describe(PickleId id) const {
  if (tree_.is(id, PickleKind::kGlobal)) return std::string(torch_global(tree_.global(id)).name);
  if (tree_.is(id, PickleKind::kCall)) {
    const std::string_view text = torch_global(tree_.global(tree_.callee(id))).text;
    if (is_tensor(id) && text.empty()) return "a tensor";
    if (!text.empty()) return std::string(text);
  }
  return std::string(pickle_kind_text(tree_.kind(id)));
}

/// At most nine: no call that is known takes more.
std::vector<PickleId> TorchTensors::arguments(PickleId tuple) const {
  std::vector<PickleId> values;
  for (std::uint32_t item = tree_.first(tuple); item != PickleTree::kEnd && values.size() < 9;
       item = tree_.next(item))
    values.push_back(tree_.value(item));
  return values;
}

Result<TorchTensor> TorchTensors::tensor(PickleId id, bool may_be_quantized) const {
  constexpr int kMaxWrappers = 8;
  PickleId callee = tree_.callee(id);
  std::vector<PickleId> values = arguments(tree_.arguments(id));
  std::optional<TorchTensor> done;
  const TorchGlobal* expected = nullptr;  ///< the type that a device tensor is said to have
  for (int i = 0; i < kMaxWrappers; ++i) {
    const TorchGlobal& function = torch_global(tree_.global(callee));
    switch (function.role) {
      case TorchRole::kRebuildTensor:
      case TorchRole::kRebuildTensorV2:
      case TorchRole::kRebuildTensorV3: {
        Result<TorchTensor> result = rebuild(function.role, values);
        if (result.ok() && result.value().tensor && expected != nullptr &&
            expected->dtype != result.value().tensor->dtype)
          return TorchTensor{std::nullopt, "a tensor saved as " +
                                               std::string(dtype_name(result.value().tensor->dtype)) +
                                               " and used as " + std::string(expected->text)};
        return result;
      }
      case TorchRole::kRebuildQTensor:
        if (!may_be_quantized) return damaged_pickle("what quantizes a tensor is quantized");
        return rebuild_quantized(values);
      case TorchRole::kOtherTensor:
        return Failure{"it is " + std::string(function.text) + ", which is not read: save " +
                       std::string(function.name == "torch._utils._rebuild_sparse_tensor"
                                       ? "tensor.to_dense() in its place"
                                       : "a tensor with plain elements in its place, or leave it out")};
      case TorchRole::kOnDevice:
        if (values.size() < 2 || role_of(values[1]) == nullptr ||
            role_of(values[1])->role != TorchRole::kDType)
          return damaged_pickle("a device tensor without a type");
        expected = role_of(values[1]);
        [[fallthrough]];
      case TorchRole::kWrapTensor:
      case TorchRole::kTensorType: {
        if (values.empty() || !tree_.is(values[0], PickleKind::kCall) || !is_tensor(values[0]))
          return damaged_pickle(quote_text(function.name) + " is given no tensor");
        const PickleId inner = values[0];
        callee = tree_.callee(inner);
        values = arguments(tree_.arguments(inner));
        break;
      }
      case TorchRole::kFromType: {
        const TorchGlobal* inner = values.size() == 4 ? role_of(values[0]) : nullptr;
        const TorchGlobal* type = inner != nullptr ? role_of(values[1]) : nullptr;
        if (type == nullptr || type->role != TorchRole::kTensorType ||
            !tree_.is(values[2], PickleKind::kTuple))
          return damaged_pickle("'_rebuild_from_type_v2' is not given a function, a type and arguments");
        callee = values[0];
        values = arguments(values[2]);
        break;
      }
      default: return damaged_pickle("a tensor is made by " + quote_text(function.name));
    }
  }
  return damaged_pickle("a tensor is wrapped more than " + std::to_string(kMaxWrappers) + " times");
}

Result<TorchTensors::Storage> TorchTensors::storage(PickleId id) const {
  if (!tree_.is(id, PickleKind::kPersistent))
    return damaged_pickle("its storage is " + std::string(pickle_kind_text(tree_.kind(id))) +
                          ", expected a persistent id");
  const Result<TorchStorageId> read = read_storage_id(tree_, id, storages_.id_size());
  if (!read.ok()) return read.failure();
  const TorchStorageId& named = read.value();
  const TorchGlobal& type = *named.type;
  const std::string subject = "its storage " + quote_text(named.key);
  const Result<TorchStoragePlace> found = storages_.storage(named.key);
  if (!found.ok()) return Failure{subject + " " + found.failure().message};
  Storage storage{named.key, &type, found.value(), named.bytes};
  // A storage of bytes may end within an element of the type that it is seen as.
  const std::uint64_t held = storage.place.size;
  if (held < storage.bytes || held - storage.bytes >= type.bytes)
    return Failure{subject + " holds " + byte_text(held) + ", but " + std::to_string(named.count) +
                   " elements of " + std::string(type.text) + " take " + std::to_string(storage.bytes)};
  if (named.view) {
    // Within the storage, of which a view is a part only where it is plain.
    storage.bytes = named.view->count * type.bytes;
    storage.place.offset += named.view->first * type.bytes;
    storage.place.stored = storage.place.size = storage.bytes;
  }
  return storage;
}

Result<std::vector<std::uint64_t>> TorchTensors::sizes(PickleId id, const char* what) const {
  if (tree_.is(id, PickleKind::kCall) && torch_global(tree_.global(tree_.callee(id))).name == "torch.Size") {
    const PickleId inner = tree_.arguments(id);
    if (tree_.size(inner) == 1) id = tree_.value(tree_.first(inner));
  }
  if (!tree_.is(id, PickleKind::kTuple) && !tree_.is(id, PickleKind::kList))
    return damaged_pickle(std::string("its ") + what + " is " +
                          std::string(pickle_kind_text(tree_.kind(id))) + ", expected a tuple");
  if (tree_.size(id) > kMaxRank)
    return Failure{std::string("its ") + what + " has " + std::to_string(tree_.size(id)) + " axes, at most " +
                   std::to_string(kMaxRank) + " are read"};
  std::vector<std::uint64_t> values;
  values.reserve(tree_.size(id));
  for (std::uint32_t item = tree_.first(id); item != PickleTree::kEnd; item = tree_.next(item)) {
    const PickleId value = tree_.value(item);
    if (!tree_.is(value, PickleKind::kInt) || tree_.integer(value) < 0)
      return damaged_pickle(std::string("its ") + what + " holds " +
                            (tree_.is(value, PickleKind::kInt)
                                 ? std::to_string(tree_.integer(value))
                                 : std::string(pickle_kind_text(tree_.kind(value)))) +
                            ", expected whole numbers");
    values.push_back(static_cast<std::uint64_t>(tree_.integer(value)));
  }
  return values;
}

/// Metadata says that elements are to be conjugated or negated on reading.
Status TorchTensors::check_metadata(PickleId id) const {
  if (tree_.is(id, PickleKind::kNone)) return {};
  if (!tree_.is(id, PickleKind::kDict)) return damaged_pickle("a tensor's metadata is no dictionary");
  for (std::uint32_t item = tree_.first(id); item != PickleTree::kEnd;) {
    const PickleId key = tree_.value(item);
    item = tree_.next(item);
    const PickleId value = tree_.value(item);
    item = tree_.next(item);
    if (tree_.is(value, PickleKind::kBool) && !tree_.is_true(value)) continue;
    const std::string_view name = tree_.is(key, PickleKind::kText) ? tree_.text(key) : "";
    if (name == "conj")
      return Failure{"it is a conjugate view (conj), which is not read: save tensor.resolve_conj()"};
    if (name == "neg")
      return Failure{"it is a negative view (neg), which is not read: save tensor.resolve_neg()"};
    return Failure{"it has the metadata " + quote_text(name) + ", which is not read"};
  }
  return {};
}

/// What the call's first four values say: the shape, and where elements of that many bytes lie.
Result<StoredTensor> TorchTensors::place(const Storage& storage, std::uint64_t element_bytes,
                                         const std::vector<PickleId>& values) const {
  if (!tree_.is(values[1], PickleKind::kInt) || tree_.integer(values[1]) < 0)
    return damaged_pickle("a tensor's offset in its storage is none");
  Result<std::vector<std::uint64_t>> shape = sizes(values[2], "shape");
  if (!shape.ok()) return shape.failure();
  Result<std::vector<std::uint64_t>> strides = sizes(values[3], "stride");
  if (!strides.ok()) return strides.failure();
  if (shape.value().size() != strides.value().size())
    return damaged_pickle("a tensor has " + std::to_string(shape.value().size()) + " sizes and " +
                          std::to_string(strides.value().size()) + " strides");
  const Result<std::uint64_t> count = element_count(shape.value());
  if (!count.ok()) return count.failure();

  StoredTensor tensor;
  tensor.shape = std::move(shape.value());
  TensorPlace& place = tensor.place;
  place.offset = storage.place.offset;
  place.stored = storage.place.stored;
  place.decoded = storage.place.size;
  place.coding = storage.place.coding;
  place.big_endian = storages_.big_endian();
  if (count.value() > 0) {
    place.first = static_cast<std::uint64_t>(tree_.integer(values[1]));
    const std::uint64_t held = storage.bytes / element_bytes;
    const checked::Size last = last_element(place.first, tensor.shape, strides.value());
    if (!last || *last >= held)
      return Failure{"shape " + shape_text(tensor.shape) + " with strides " + shape_text(strides.value()) +
                     " from element " + std::to_string(place.first) + " on leaves its storage " +
                     quote_text(storage.key) + ", which has " + std::to_string(held) + " elements"};
    if (!is_row_major(tensor.shape, strides.value())) place.strides = std::move(strides.value());
  }
  return tensor;
}

Result<TorchTensor> TorchTensors::rebuild(TorchRole role, const std::vector<PickleId>& values) const {
  const std::size_t least = role == TorchRole::kRebuildTensor     ? 4
                            : role == TorchRole::kRebuildTensorV2 ? 6
                                                                  : 7;
  const std::size_t most = role == TorchRole::kRebuildTensor ? least : least + 1;
  if (values.size() < least || values.size() > most)
    return damaged_pickle("a tensor is made from " + std::to_string(values.size()) + " values, expected " +
                          std::to_string(least));
  if (values.size() > least) {
    const Status metadata = check_metadata(values[least]);
    if (!metadata.ok()) return metadata.failure();
  }
  const Result<Storage> found = storage(values[0]);
  if (!found.ok()) return found.failure();
  const Storage& storage = found.value();
  const TorchGlobal* type = storage.type;
  if (role == TorchRole::kRebuildTensorV3) {
    type = role_of(values[6]);
    if (type == nullptr || type->role != TorchRole::kDType) return damaged_pickle("a tensor's dtype is none");
  }
  Result<StoredTensor> placed = place(storage, type->bytes, values);
  if (!placed.ok()) return placed.failure();
  StoredTensor& tensor = placed.value();
  if (!type->dtype) return TorchTensor{std::nullopt, "a tensor of " + std::string(type->text)};
  tensor.dtype = *type->dtype;
  if (tensor.dtype == DType::kF4) {
    // An element of torch's type is a pair of ours.
    const checked::Size last_axis =
        checked::multiply(tensor.shape.empty() ? checked::Size() : tensor.shape.back(), 2);
    const checked::Size first = checked::multiply(tensor.place.first, 2);
    if (!tensor.place.strides.empty() || !last_axis || !first)
      return TorchTensor{std::nullopt, "a view of pairs of 4-bit floats"};
    tensor.shape.back() = *last_axis;
    tensor.place.first = *first;
  }
  const Result<std::uint64_t> bytes = tensor_byte_size(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return bytes.failure();
  take_checksum(tensor, bytes.value(), storage.place.crc);
  return TorchTensor{std::move(tensor), {}};
}

/// Scales or zero points of channels: a tensor of one axis, of one of the types.
Result<StoredTensor> TorchTensors::parameters(PickleId id, const char* what,
                                              std::initializer_list<DType> types) const {
  if (!tree_.is(id, PickleKind::kCall) || !is_tensor(id))
    return Failure{std::string("its ") + what + " are " + describe(id) +
                   ", which is not read: load it by torch.load and save it again"};
  Result<TorchTensor> found = tensor(id, false);
  if (!found.ok()) return Failure{std::string("its ") + what + ": " + found.failure().message};
  std::optional<StoredTensor>& made = found.value().tensor;
  if (!made || std::ranges::find(types, made->dtype) == types.end() || made->shape.size() != 1)
    return damaged_pickle(std::string("a quantized tensor's ") + what + " are " +
                          (made ? shape_text(made->shape) + " " + std::string(dtype_name(made->dtype))
                                : found.value().skipped));
  return *std::move(made);
}

/// Reads scale and zero point of (scheme, scale, zero point), or scales, zero points and their axis of
/// (scheme, scales, zero points, axis). A Failure where it is neither.
std::optional<Failure> TorchTensors::read_quantizer(const std::vector<PickleId>& quantizer,
                                                    AffineCodes& affine) const {
  const TorchGlobal* const scheme = quantizer.empty() ? nullptr : role_of(quantizer[0]);
  const std::string_view name = scheme != nullptr ? scheme->name : "";
  if (name == "torch.per_tensor_affine" && quantizer.size() == 3) {
    if (!tree_.is(quantizer[1], PickleKind::kFloat) || !tree_.is(quantizer[2], PickleKind::kInt))
      return damaged_pickle("a quantized tensor's scale or zero point is no number");
    affine.scale = static_cast<float>(tree_.real(quantizer[1]));
    affine.zero = tree_.integer(quantizer[2]);
    return {};
  }
  if (!name.starts_with("torch.per_channel_affine") || quantizer.size() != 4)
    return damaged_pickle("a quantized tensor's scheme is " +
                          (name.empty() ? std::string("none") : quote_text(name)) + " of " +
                          std::to_string(quantizer.size()) + " values");
  Result<StoredTensor> scales = parameters(quantizer[1], "scales", {DType::kF64, DType::kF32});
  if (!scales.ok()) return scales.failure();
  Result<StoredTensor> zeros =
      parameters(quantizer[2], "zero points", {DType::kI64, DType::kI32, DType::kF32});
  if (!zeros.ok()) return zeros.failure();
  const std::vector<std::uint64_t>& shape = affine.codes.shape;
  const std::int64_t axis =
      tree_.is(quantizer[3], PickleKind::kInt) ? tree_.integer(quantizer[3]) : std::int64_t{-1};
  if (axis < 0 || static_cast<std::uint64_t>(axis) >= shape.size())
    return damaged_pickle("a quantized tensor's axis is none of " + shape_text(shape));
  const std::uint64_t channels = shape[static_cast<std::size_t>(axis)];
  if (scales.value().shape[0] != channels || zeros.value().shape[0] != channels)
    return damaged_pickle("a quantized tensor of " + std::to_string(channels) + " channels has " +
                          std::to_string(scales.value().shape[0]) + " scales and " +
                          std::to_string(zeros.value().shape[0]) + " zero points");
  affine.axis = static_cast<std::size_t>(axis);
  affine.scales = std::move(scales.value());
  affine.zeros = std::move(zeros.value());
  return {};
}

/// (storage, offset, size, stride, quantizer, ...)
Result<TorchTensor> TorchTensors::rebuild_quantized(const std::vector<PickleId>& values) const {
  if (values.size() < 5)
    return damaged_pickle("a quantized tensor is made from " + std::to_string(values.size()) + " values");
  const Result<Storage> found = storage(values[0]);
  if (!found.ok()) return found.failure();
  const Storage& storage = found.value();
  if (!storage.type->codes)
    return Failure{"it is a quantized tensor of " + std::string(storage.type->text) +
                   ", which is not read: save tensor.dequantize()"};
  Result<StoredTensor> placed = place(storage, storage.type->bytes, values);
  if (!placed.ok()) return placed.failure();
  auto affine = std::make_shared<AffineCodes>();
  affine->codes = std::move(placed.value());
  affine->codes.dtype = *storage.type->codes;
  const Result<std::uint64_t> bytes = tensor_byte_size(affine->codes.dtype, affine->codes.shape);
  if (!bytes.ok()) return bytes.failure();
  take_checksum(affine->codes, bytes.value(), storage.place.crc);
  if (!tree_.is(values[4], PickleKind::kTuple)) return damaged_pickle("a quantized tensor has no quantizer");
  if (auto failure = read_quantizer(arguments(values[4]), *affine)) return *failure;
  StoredTensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = affine->codes.shape;
  const Result<std::uint64_t> floats = tensor_byte_size(tensor.dtype, tensor.shape);
  if (!floats.ok()) return floats.failure();
  tensor.place.offset = affine->codes.place.offset;
  tensor.place.stored = affine->codes.place.stored;
  tensor.place.decoded = floats.value();
  tensor.place.coding = StorageCoding::kAffine;
  tensor.place.affine = std::move(affine);
  return TorchTensor{std::move(tensor), {}};
}

}  // namespace crumb
