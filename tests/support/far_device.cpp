// A device that is not the CPU, on a machine that has none: "hpu", a name of LibTorch's whose operators it does not bring.
// Here they are the CPU's, but the device's memory opens for them and for copies alone, so that code which takes a pointer
// into it dies; and, as on a GPU, no operator takes tensors of two devices, numbers and indices apart. Linked into a second
// engine for the crumb command (CRUMB_ENGINE).
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr auto kFar = c10::DeviceType::HPU;

/// Memory that nobody may touch while it is closed.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(kFar, 0);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    const auto page = static_cast<std::size_t>(getpagesize());
    const std::size_t size = (bytes + page - 1) / page * page;
    void* begin = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "hpu: no memory");
    const std::scoped_lock lock(mutex_);
    regions_[begin] = {size, 0};
    return {begin, begin, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  void turn(void* begin, int by) {
    if (!begin) return;
    const std::scoped_lock lock(mutex_);
    Region& region = regions_.at(begin);
    const bool was_open = region.open > 0;
    region.open += by;
    const bool is_open = region.open > 0;
    if (was_open != is_open) mprotect(begin, region.size, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  static Memory& of_all();

 private:
  struct Region {
    std::size_t size = 0;
    int open = 0;
  };
  static void release(void* begin) {
    if (!begin) return;
    Memory& memory = of_all();
    const std::scoped_lock lock(memory.mutex_);
    munmap(begin, memory.regions_.at(begin).size);
    memory.regions_.erase(begin);
  }

  std::mutex mutex_;
  std::map<void*, Region> regions_;
};

Memory& Memory::of_all() {
  static Memory* memory = new Memory;  // tensors of static life are released after everything else
  return *memory;
}

/// The same memory as a tensor of the CPU's, while it lives.
class Opened {
 public:
  explicit Opened(const Tensor& tensor) : tensor_(tensor) { turn(1); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { turn(-1); }

  Tensor near() const {
    if (tensor_.is_cpu()) return tensor_;
    return at::from_blob(tensor_.data_ptr(), tensor_.sizes(), tensor_.strides(),
                         tensor_.options().device(at::kCPU).requires_grad(false));
  }

 private:
  void turn(int by) const {
    if (!tensor_.is_cpu()) Memory::of_all().turn(tensor_.storage().mutable_data(), by);
  }
  Tensor tensor_;
};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kFar> {
  c10::Device exchangeDevice(c10::Device) const override { return {kFar, 0}; }
  c10::Device getDevice() const override { return {kFar, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kFar, 0)); }
};
C10_REGISTER_GUARD_IMPL(HPU, Guard);

struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  /// That seeds are set for; nothing is drawn on the device.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator kGenerator = at::detail::createCPUGenerator();
    return kGenerator;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
REGISTER_HPU_HOOKS(HPUHooks);

Tensor empty(IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &Memory::of_all(), c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   c10::dtype_or_default(type), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &Memory::of_all(),
                                           c10::DispatchKeySet(c10::DispatchKey::HPU),
                                           c10::dtype_or_default(type));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  const Opened source(from), target(to);
  target.near().copy_(source.near());
  return to;
}

const Tensor& resize(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat>) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  const auto bytes = static_cast<std::size_t>(self.numel() + self.storage_offset()) * self.element_size();
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  if (storage->nbytes() >= bytes) return self;
  storage->set_data_ptr_noswap(Memory::of_all().allocate(bytes));  // operators overwrite what they resize
  storage->set_nbytes(bytes);
  return self;
}

Tensor& set_storage(Tensor& self, c10::Storage storage, std::int64_t offset, IntArrayRef size,
                    IntArrayRef stride) {
  c10::TensorImpl* own = self.unsafeGetTensorImpl();
  own->set_storage_keep_dtype(std::move(storage));
  own->set_sizes_and_strides(size, stride, offset);
  return self;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

/// Whether a tensor of the CPU may be there beside others: a number, or indices where a GPU takes them from there.
bool may_be_near(const Tensor& tensor, const std::string& name) {
  return tensor.dim() == 0 || name == "aten::index" || name == "aten::index_put" ||
         name == "aten::index_put_" || name == "aten::_index_put_impl_";
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  const auto check = [&](const Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || !tensor.is_cpu() || may_be_near(tensor, name), name,
                " got tensors on hpu and on cpu: one of the cpu's is of sizes ", tensor.sizes());
  };
  const std::size_t count = op.schema().arguments().size();
  for (auto value = stack->end() - static_cast<std::ptrdiff_t>(count); value != stack->end(); ++value) {
    if (value->isTensor()) {
      check(value->toTensor());
    } else if (value->isTensorList()) {
      for (const Tensor& tensor : value->toTensorVector()) check(tensor);
    } else if (value->isOptionalTensorList()) {
      for (const auto& element : value->toOptionalTensorVector())
        if (element) check(*element);
    }
  }
  at::native::cpu_fallback(op, stack);
}

/// LibTorch asks a device for its own.
Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, std::int64_t groups) {
  const auto near = [](const Tensor& tensor) { return tensor.to(at::kCPU); };
  const bool has_bias = bias && bias->defined();
  return at::convolution(near(x), near(weight), has_bias ? std::optional(near(*bias)) : std::nullopt, stride,
                         padding, dilation, transposed, output_padding, groups)
      .to(x.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& x,
                                                        const Tensor& weight, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding,
                                                        std::int64_t groups, std::array<bool, 3> wanted) {
  const auto near = [](const Tensor& tensor) { return tensor.to(at::kCPU); };
  const auto far = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(x.device()) : tensor; };
  const std::vector<std::int64_t> biases{transposed ? weight.size(1) * groups : weight.size(0)};
  const auto [a, b, c] =
      at::convolution_backward(near(gradient), near(x), near(weight), at::OptionalIntArrayRef(biases), stride,
                               padding, dilation, transposed, output_padding, groups, wanted);
  return {far(a), far(b), far(c)};
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("resize_", &resize);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
  library.impl("convolution_overrideable", &convolution);
  library.impl("convolution_backward_overrideable", &convolution_backward);
}

TORCH_LIBRARY_IMPL(_, HPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

[[maybe_unused]] const bool kRegistered = [] {
  c10::SetAllocator(kFar, &Memory::of_all());
  return true;
}();

}  // namespace
