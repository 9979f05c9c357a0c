// What the factories of all buffers read from a config in the same way.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selector.h"
#include "google/protobuf/message.h"

namespace ding {

// The selector that the config names; null: none, or there is a problem, which is added.
std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems);

// The settings that all types of buffer have and name alike, from a config and what its component is
// given. A capacity that is not set stays that of `*options`. Adds a sentence for each problem.
template <typename Options>
void ReadCommonOptions(const BufferConfig& config, const ComponentDeps& deps, Options* options,
                       std::vector<std::string>* problems) {
  if (config.has_replay_buffer_size()) options->capacity_rows = config.replay_buffer_size();
  if (config.has_replay_buffer_bytes()) options->capacity_bytes = config.replay_buffer_bytes();
  options->nstep = config.nstep();
  options->gamma = config.discount_factor();
  options->metrics = deps.metrics;
  options->periodic_thruput_seconds = config.periodic_thruput_seconds();
  options->clock = deps.clock;
  options->seed = deps.seed;
  if (!deps.name.empty()) options->name = deps.name;
  options->selector = ReadSelector(config, problems);
}

// Reads `params` into `*params`, if it is set. Null: this type of buffer has none. Adds a sentence for each problem.
void ReadBufferConfig(const BufferConfig& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
