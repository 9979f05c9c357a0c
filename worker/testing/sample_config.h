// A config for tests of the text format: nested messages, an Any and a list.
#ifndef DING_WORKER_WORKER_TESTING_SAMPLE_CONFIG_H_
#define DING_WORKER_WORKER_TESTING_SAMPLE_CONFIG_H_

namespace ding {

inline constexpr char kSampleConfig[] = R"(
exp_name: "run"
policy {
  type: "dqn"
  params {
    [type.googleapis.com/ding.DqnConfig] {
      learning_rate: 0.5
      model { encoder_hidden_size: [8, 8] }
    }
  }
  learn { learner { hook { hook { type: "a" } hook { type: "b" } } } }
})";

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_SAMPLE_CONFIG_H_
