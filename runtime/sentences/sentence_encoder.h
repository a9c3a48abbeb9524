// Texts to vectors: a sentence encoder's graph and its checkpoint's tokenizer.
//
// Equal to sentence-transformers on the same checkpoint but for rounding.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/model.h"
#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::runtime {

class SentenceEncoder {
 public:
  /// Called after each batch with the lines that are done and all lines, never by two threads at once. What
  /// it throws ends the work.
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  /// `graph`: a checkpoint's (models/checkpoint_graph.h says its inputs and outputs), in operators that the
  /// runtime has; `text`: the files beside its tensors; `name`: whose they are, for messages. A graph without
  /// sentence_embedding gives the mean of its tokens' states, as sentence-transformers takes a bare
  /// transformer. Throws Error where a file is missing or damaged, and as Model and SentenceTokenizer do.
  static SentenceEncoder load(graph::Graph graph, const ModelText& text, const std::string& name);

  std::size_t width() const { return width_; }  ///< floats of a line
  const graph::Graph& graph() const { return model_.graph(); }
  const text::Tokenizer& tokenizer() const { return tokenizer_.tokenizer(); }

  /// [lines.size(), width()], in the order of the lines, on up to `threads` threads (0: as many as the
  /// machine has). A line's vector depends on that line alone, bit for bit. Takes, for each thread, memory
  /// for the states of about 2048 tokens beside the result.
  std::vector<float> embed(const std::vector<std::string>& lines, int threads = 0,
                           const Progress& progress = {}, Promise promise = Promise::kExact) const;

 private:
  SentenceEncoder(Model model, SentenceTokenizer tokenizer);

  Model model_;
  SentenceTokenizer tokenizer_;
  std::size_t width_ = 0;
  std::size_t output_ = 0;  ///< of the graph's outputs
  bool of_tokens_ = false;  ///< it is a state for each token
};

}  // namespace crumb::runtime
