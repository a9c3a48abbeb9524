// How a decoder or a sentence encoder learns, for all jobs that train one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace crumb::jobs {

struct LanguageTraining {
  std::string schedule = "cosine";  ///< of the rate: cosine, linear, constant
  std::int64_t length = 512;        ///< tokens of a sequence, or the most of a line
  std::int64_t steps = 240;
  std::int64_t warm_up = 15;   ///< steps in which the rate grows
  double average = 0;          ///< decay of the parameters' moving average, a step; 0: no average
  double temperature = 1;      ///< divides the logits of both networks in the loss kl
  std::size_t tokens = 0;      ///< the first tokens of the text; 0: all, or 16384 of a generated one
  std::string teacher_logits;  ///< a file of the float network's predictions, made where it does not exist
  std::int64_t top_k = 64;     ///< predicted tokens of each position in that file, where it is made

  // How it runs.
  std::string device = "cpu";  ///< or cuda, cuda:1
  std::string products;  ///< f32, bf16, tf32; "": the shorter type where the processor or the device has it
  std::string optimizer_states = "f32";  ///< or bf16, int8
  std::int64_t at_once = 0;              ///< sequences, or lines, of a step that run together; 0: all
  bool recompute = false;                ///< recomputes the values inside layers instead of keeping them
  int threads = 0;                       ///< 0: as many as the machine has
  int checkpoint_every = 0;              ///< steps between two saved states of an unfinished run; 0: ten
                                         ///< minutes
  bool restart = false;                  ///< drops an unfinished run in the folder
  /// The process keeps the memory that a step frees, by a setting of the C library: a fifth faster.
  bool keeps_memory = false;
};

}  // namespace crumb::jobs
