// Converts tensors between QuantizedTensor and the packed file.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/crumb_file/crumb_file.h"
#include "formats/crumb_file/writer.h"
#include "quant/quantized_tensor.h"

namespace crumb {

/// An encoded tensor of a packed file: its bytes (mapped or decompressed; checksums and contents checked, as
/// check_encoded() does) and a view of them. Spans point into the CrumbFile, which must outlive it.
class LoadedTensor {
 public:
  /// Fails on damaged bytes and on values that a packed file must not hold, naming tensor and part.
  /// Precondition: tensor.encoding is set; the tensor belongs to the file.
  static Result<LoadedTensor> load(const CrumbFile& file, const PackedTensor& tensor);

  const QuantizedView& view() const { return view_; }

 private:
  std::vector<BlobBytes> parts_;
  std::vector<float> tensor_scales_;
  QuantizedView view_;
};

/// Returns the tensor in memory of its own, in rows. Fails as load() does; preconditions as there.
Result<QuantizedTensor> copy_encoded(const CrumbFile& file, const PackedTensor& tensor);

/// Returns the tensor with its codes in the mapped file, in the file's layout and not checked yet
/// (LentCodes); other parts are checked and copied. Compressed codes are copied as copy_encoded() does. Fails
/// as copy_encoded() does.
Result<QuantizedTensor> borrow_encoded(const std::shared_ptr<const CrumbFile>& file,
                                       const PackedTensor& tensor);

/// Describes a tensor that will be encoded, as a plan needs it.
PackedTensor plan_encoded(std::string name, DType dtype, std::vector<uint64_t> shape, std::string spec,
                          const Encoding& encoding);

/// Writes an encoded tensor's parts in the layout that the plan says; the tensor must be the plan's next.
void write_encoded(CrumbWriter& writer, const QuantizedTensor& tensor, CodeLayout codes = CodeLayout::kRows);

/// The same without the codes, which are written already, in the tensor's layout.
void write_after_codes(CrumbWriter& writer, const QuantizedTensor& tensor);

}  // namespace crumb
