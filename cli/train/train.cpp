// crumb train: what can be trained, one verb each.
#include "cli/train/train.h"

#include "cli/flags/verb.h"

namespace crumb::cli {

void add_train(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("train", "Train a network with quantizers in the loop");
  verb->require_subcommand(1);
  add_train_task(*verb);
  add_train_graph(*verb);
  add_train_language_model(*verb);
  add_train_encoder(*verb);
  for (CLI::App* trained : verb->get_subcommands([](CLI::App*) { return true; }))
    trained->group("What is trained");
  verb->footer(
      "Each explains itself, as in crumb train lm --help.\n\n"
      "Example:\n"
      "  crumb train task digits -o digits_w4a4 --accumulator 10:a2q_plus\n"
      "  crumb train graph net.onnx --data x.npy --labels y.npy --loss ce -o net_w4a4\n"
      "  crumb train lm --model SmolLM2 --data text.txt --valid valid.txt --weights int2h:group=32 -o "
      "smollm2_w2\n"
      "  crumb train embed --model all-MiniLM-L6-v2 --data lines.txt --weights int3:group=64 -o minilm_w3");
}

}  // namespace crumb::cli
