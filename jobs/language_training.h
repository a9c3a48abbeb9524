// How a decoder or a sentence encoder learns: what jobs that train them have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace crumb::jobs {

struct LanguageTraining {
  std::string schedule = "cosine";  ///< of the rate: cosine, linear, constant
  std::int64_t length = 512;        ///< tokens of a sequence, or of a line at most
  std::int64_t steps = 240;
  std::int64_t warm_up = 15;   ///< steps in which the rate grows
  double average = 0;          ///< what each step keeps of the moving average of what learns; 0: none
  double temperature = 1;      ///< divides the logits of both networks, of the loss kl
  std::size_t tokens = 0;      ///< the first ones of the text; 0: all, of one that is drawn 16384
  std::string teacher_logits;  ///< a file of what the float network predicts, made where there is none
  std::int64_t top_k = 64;     ///< tokens of each position in that file, where it is made

  // Running.
  std::string device = "cpu";  ///< or cuda, cuda:1
  std::string products;  ///< f32, bf16, tf32; "": the short one where the processor or the device has it
  std::string optimizer_states = "f32";  ///< or bf16, int8
  std::int64_t at_once = 0;              ///< sequences, or lines, of a step that run at a time; 0: all
  bool recompute = false;                ///< what is inside layers, instead of keeping it
  int threads = 0;                       ///< 0: those the machine has
  int checkpoint_every = 0;              ///< steps between two states of an unfinished run; 0: ten minutes
  bool restart = false;                  ///< an unfinished run that lies there is dropped
  /// Memory that a step gives back stays with the process, as a setting of the C library: a fifth faster.
  bool keeps_memory = false;
};

}  // namespace crumb::jobs
