#include "ptq/samples/tensor_spool.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace crumb::ptq {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error("the temporary file for samples cannot be " + std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

void TensorSpool::put(std::vector<graph::Tensor> tensors) {
  std::vector<Item>& list = items_.emplace_back();
  for (graph::Tensor& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes().size();
    Item item{.tensor = {}, .type = tensor.type(), .shape = tensor.shape(), .bytes = bytes};
    if (held_ + bytes <= memory_) {
      held_ += bytes;
      item.tensor = std::move(tensor);
      list.push_back(std::move(item));
      continue;
    }
    if (!file_) file_.reset(std::tmpfile());
    if (!file_) fail("made");
    item.offset = end_;
    if (fseeko(file_.get(), end_, SEEK_SET) != 0 ||
        std::fwrite(tensor.bytes().data(), 1, bytes, file_.get()) != bytes)
      fail("written");
    end_ += static_cast<std::int64_t>(bytes);
    list.push_back(std::move(item));
  }
}

std::vector<graph::Tensor> TensorSpool::take() {
  std::vector<Item> list = std::move(items_.front());
  items_.pop_front();
  std::vector<graph::Tensor> tensors;
  for (Item& item : list) {
    if (item.offset < 0) {
      held_ -= item.bytes;
      tensors.push_back(std::move(item.tensor));
      continue;
    }
    std::vector<std::byte> bytes(item.bytes);
    if (fseeko(file_.get(), item.offset, SEEK_SET) != 0 ||
        std::fread(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
      fail("read");
    tensors.emplace_back(item.type, std::move(item.shape), std::move(bytes));
  }
  if (items_.empty()) {
    file_.reset();
    end_ = 0;
  }
  return tensors;
}

}  // namespace crumb::ptq
