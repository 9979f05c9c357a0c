// Reads the parts of a config that the factories of all buffers read in the same way.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/priority_options.h"
#include "ding_worker/replay_buffer/selection/remover.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "google/protobuf/message.h"

namespace ding {

// Makes the selector that the config names. Null if it names none, or if there is a problem, which is
// added.
std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems);

// Makes the remover that the config names, for a type of buffer whose descriptor says that it takes one;
// otherwise like ReadSelector().
std::shared_ptr<IRemover> ReadRemover(const BufferConfig& config,
                                      std::vector<std::string>* problems);

// Reads the settings that all types of buffer have under the same names from a config and the
// component's dependencies. If the config sets no capacity, that of `*options` stays. Adds a
// sentence for each problem.
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

// Reads how draws go by priority from a message that has these settings.
template <typename Config>
void ReadPriorityOptions(const Config& config, PriorityOptions* options) {
  options->alpha = config.alpha();
  options->beta = config.beta();
  options->anneal_step = config.anneal_step();
}

// Reads the field `params` of `config` into `*params`, if it is set. A null `params` says that this
// type of buffer has no parameters. Adds a sentence for each problem.
void ReadBufferConfig(const BufferConfig& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
