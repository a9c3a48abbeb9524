// Turns texts into vectors: the graph of a sentence encoder and the tokenizer of its checkpoint.
//
// Results equal those of sentence-transformers on the same checkpoint except for rounding.
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
  /// Called after each batch with the number of lines that are done and of all lines, never by two threads at
  /// once. An exception ends the work.
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  /// `graph`: a checkpoint's, in operators of the runtime (models/checkpoint_graph.h says its inputs and
  /// outputs). `text`: the checkpoint's other files. `name` names it in messages. A graph without
  /// sentence_embedding gives the mean of its tokens' states, as sentence-transformers does for a bare
  /// transformer. Throws Error where a file is missing or damaged, and as Model and SentenceTokenizer do.
  static SentenceEncoder load(graph::Graph graph, const ModelText& text, const std::string& name,
                              const PromptChoice& prompt = {});

  std::size_t width() const { return width_; }  ///< floats of a line
  const graph::Graph& graph() const { return model_.graph(); }
  const SentenceTokenizer& tokenizer() const { return tokenizer_; }

  /// Returns [lines.size(), width()], in the order of the lines, using up to `threads` threads (0: as many as
  /// the machine has). A line's vector depends on that line alone, bit for bit. Throws Error for a line
  /// without tokens, which is an empty one of a tokenizer that puts none around a text. In addition to the
  /// result each thread takes memory for the states of about 2048 tokens.
  std::vector<float> embed(const std::vector<std::string>& lines, int threads = 0,
                           const Progress& progress = {}, Promise promise = Promise::kExact) const;
  /// The same of lines that are two texts each, which the model sees as one row.
  std::vector<float> embed_pairs(const std::vector<TextPair>& lines, int threads = 0,
                                 const Progress& progress = {}, Promise promise = Promise::kExact) const;

 private:
  SentenceEncoder(Model model, SentenceTokenizer tokenizer);
  std::vector<float> embed_rows(const std::vector<text::PairTokens>& rows, int threads,
                                const Progress& progress, Promise promise) const;

  Model model_;
  SentenceTokenizer tokenizer_;
  std::size_t width_ = 0;
  std::size_t output_ = 0;  ///< of the graph's outputs
  bool of_tokens_ = false;  ///< whether the output is a state for each token
};

}  // namespace crumb::runtime
