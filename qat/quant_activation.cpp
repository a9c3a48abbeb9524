#include "qat/quant_activation.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/error.h"
#include "base/files/counted.h"
#include "libtorch/fake_quantize.h"

namespace crumb::qat {

QuantActivationImpl::QuantActivationImpl(const std::string& spec, std::int64_t observed)
    : QuantActivationImpl(QuantSpec::parse_activations(spec), observed) {}

QuantActivationImpl::QuantActivationImpl(const QuantSpec& spec, std::int64_t observed)
    : torch::nn::Module("QuantActivation"), spec_(spec), observed_(observed) {
  if (spec.is_dynamic()) return;
  quantizer_ = register_module("quantizer", std::make_shared<ActivationQuantizer>(spec));
  seen_ = register_buffer("seen", torch::zeros({}, at::kLong));
}

void QuantActivationImpl::observe(const at::Tensor& values) {
  const torch::NoGradGuard no_gradients;
  if (!statistics_) statistics_ = std::make_unique<graph::EdgeStatistics>(spec_);
  const at::Tensor x = values.detach().to(at::kCPU, at::kFloat).contiguous();
  statistics_->add({x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel())});
  if (statistics_->not_finite() > 0) throw Error(name() + ": the values hold inf or NaN");
  if (!spec_.number->is_signed && spec_.zero == ZeroPoint::kNone) refuse_negative(statistics_->least());
  const graph::ScaleAndZero found = statistics_->fit();
  quantizer_->set(found.scale > 0 ? found.scale : 1, found.zero_point);
  seen_.add_(1);
}

void QuantActivationImpl::refuse_negative(double least) const {
  if (least >= 0) return;
  throw Error(name() + ": the values go down to " + number_text(least) + ", but " + spec_.to_string() +
              " has no sign; give it a signed format" + (spec_.is_dynamic() ? "" : ", or a zero point"));
}

at::Tensor QuantActivationImpl::forward(const at::Tensor& values) {
  if (spec_.is_dynamic()) {
    if (is_training() && !spec_.number->is_signed && values.numel() > 0)
      refuse_negative(values.detach().min().item<double>());
    return fake_quantize(values, spec_);
  }
  if (torch::jit::tracer::isTracing()) {
    // A recorded network has the current scale as a constant.
    at::Tensor scale;
    std::optional<at::Tensor> zero;
    {
      const at::tracer::impl::NoTracerDispatchMode untraced;
      scale = at::scalar_tensor(quantizer_->scale()).view({1});
      if (spec_.zero != ZeroPoint::kNone) zero = at::scalar_tensor(quantizer_->zero_point()).view({1});
    }
    return fake_quantize(values, scale, zero, spec_);
  }
  if (is_training() && seen_.item<std::int64_t>() < observed_) observe(values);
  if (seen_.item<std::int64_t>() == 0) {
    throw Error(name() + ": the range of the values is not known yet: run it in training mode first");
  }
  return quantizer_->forward(values, spec_);
}

}  // namespace crumb::qat
