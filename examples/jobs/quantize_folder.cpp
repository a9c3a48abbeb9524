// Quantizes a model's folder: quantize_folder SmolLM2-135M smol.crumb "weights: int4:group=32".
#include <cstdio>
#include <string>

#include "base/error.h"
#include "jobs/quantize.h"

namespace {

struct Printed final : crumb::jobs::Observer {
  void note(const std::string& text) override { std::fprintf(stderr, "note: %s\n", text.c_str()); }
  void progress(const crumb::jobs::Progress& now) override {
    std::fprintf(stderr, "\r%s: %zu of %zu %s", now.what.c_str(), now.done, now.all, now.items.c_str());
  }
  void done() override { std::fputc('\n', stderr); }
};

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) return 2;
  const crumb::Recipe recipe = crumb::parse_recipe(arguments[3], "the recipe");
  Printed printed;
  const auto report =
      crumb::jobs::quantize({.input = arguments[1], .output = arguments[2], .recipe = recipe}, printed);
  std::printf("%zu tensors, %.2f MB from %.2f MB, %.3f bits a weight\n", report.tensors.size(),
              1e-6 * static_cast<double>(report.output_bytes), 1e-6 * static_cast<double>(report.input_bytes),
              report.bits_per_weight);
  return 0;
} catch (const crumb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
