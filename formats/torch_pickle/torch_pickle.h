// PyTorch checkpoints (.pt, .pth, .bin): what torch.save wrote from version 0.1.10 to 1.5, a stream of
// pickles and storages (torch_stream.h beside this), and what it writes since version 1.6, a zip archive
//
//   NAME/data.pkl        a pickle (protocol 2) of the saved object; tensors are calls of
//                        torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...) on persistent
//                        ids ('storage', TYPE, KEY, DEVICE, elements)
//   NAME/data/KEY        the storage KEY: plain elements, in the byte order that NAME/byteorder says (little
//                        where the member is missing)
//   NAME/version, NAME/.format_version, NAME/.storage_alignment, NAME/.data/serialization_id
//
// The pickle is interpreted, never executed: a stack machine over a closed set of values, with an allow-list
// of the globals that torch.save itself writes. Anything else is refused with the name that was asked for.
// Storages are shared and viewed as the file says; nothing of their data is read here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/stored_tensor.h"

namespace crumb {

struct TorchOptions {
  /// Which entry of the saved dictionary is the model ("model", "state_dict", "ema.model": dots descend);
  /// empty: found as list_torch_checkpoint says.
  std::string key;
};

/// What a file is by its first bytes (262 are enough to tell), where it is torch's tar archive of before
/// version 0.1.10, or a bare pickle, as pickle.dump writes: for messages, with what to do. Empty for others.
std::string_view unread_torch_form(std::span<const std::byte> start);

/// Lists the tensors of a saved state dict. Nested dictionaries and lists are flattened with dots ("0.weight"
/// for list elements). Without a key: where the saved object is a wrapper (a dictionary whose values are
/// mostly no tensors) with exactly one entry among "state_dict", "model_state_dict", "model", "module",
/// "net", "weights", "params" that is a dictionary with tensors, that entry is the model; otherwise the whole
/// object is. Entries that are no tensors, and optimizer states ("optimizer", "optimizer_state_dict",
/// "optim", ... or any dictionary with "state" and "param_groups"), are skipped and listed.
///
/// A saved object that is one tensor has no name in the file and is listed as "": the caller names it. A
/// tensor that a key picks is named by the key's last part. Quantized tensors (qint8, quint8, qint32; one
/// scale or one for each channel) are the floats that they stand for; of the pair that a quantized layer
/// packs ("_packed_params"), the weight has the entry's name and the bias that of a member. Tensors of types
/// that are none of ours are skipped and listed too; pairs of 4-bit floats are listed as F4, whose last axis
/// is twice as long.
///
/// A Failure says: a pickle that asks for anything outside the allow-list (its full name, as in
/// 'os.system'), a file of before version 0.1.10, a bare pickle, TorchScript (an archive with code/), a
/// truncated or damaged file, a key that is not there (and which are), a view that leaves its storage, a
/// storage that is not there or has another size, conjugate and negative views, sparse, meta and nested
/// tensors, quantized ones of other types, names that collide once flattened, optimizer state alone, and
/// objects without a tensor that can be read. Memory and time are bounded by the pickle's size, however
/// values are shared: about 50 bytes for one of its own, and up to 256 for what is listed (at most 1 GiB).
Result<TensorListing> list_torch_checkpoint(std::span<const std::byte> file,
                                            const TorchOptions& options = {});

}  // namespace crumb
