// crumb agree: compares two sets of embeddings.
#include <iostream>

#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "formats/npy/npy.h"
#include "quant/agreement.h"

namespace crumb::cli {
namespace {

struct AgreeFlags {
  std::string a, b;
  bool json = false;
};

NpyArray read_matrix(const std::string& path) {
  NpyArray array = read_npy(path).take();
  if (array.shape.size() != 2) {
    throw Error(quote_text(path) + " has shape " + shape_text(array.shape) + ", expected [lines, width]");
  }
  return array;
}

void agree_verb(const AgreeFlags& options) {
  const NpyArray a = read_matrix(options.a);
  const NpyArray b = read_matrix(options.b);
  if (a.shape != b.shape) {
    throw Error(quote_text(options.a) + " has shape " + shape_text(a.shape) + ", " + quote_text(options.b) +
                " has " + shape_text(b.shape) + "; expected the same");
  }
  const Agreement agreed = agreement(a.to_floats(), b.to_floats(), a.shape[0], a.shape[1]);
  if (options.json) {
    Json json;
    json["mean_cosine"] = json_number(agreed.mean_cosine);
    json["least_cosine"] = json_number(agreed.least_cosine);
    json["spearman"] = json_number(agreed.spearman);
    return print_json(json);
  }
  std::cout << "mean cosine   " << fixed(agreed.mean_cosine, 6) << "\nleast cosine  "
            << fixed(agreed.least_cosine, 6) << "\nspearman      " << fixed(agreed.spearman, 6) << "\n";
}

}  // namespace

void add_agree(CLI::App& app) {
  auto options = std::make_shared<AgreeFlags>();
  CLI::App* verb =
      app.add_subcommand("agree", "Compare two sets of embeddings row by row and in their similarities");
  verb->add_option("a", options->a, "A .npy file [lines, width]")->type_name("FILE")->required();
  verb->add_option("b", options->b, "A .npy file of the same shape")->type_name("FILE")->required();
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "spearman: rank correlation of the cosine similarities of all pairs of lines.\n\n"
      "Example:\n  crumb agree float.npy packed.npy");
  verb->callback([options] { agree_verb(*options); });
}

}  // namespace crumb::cli
