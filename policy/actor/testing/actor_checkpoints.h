// Policies of all kinds that actors play, with random parameters, and their checkpoints as a
// training writes them.
//
// Threads: call these functions from one thread at a time.
#ifndef DING_WORKER_POLICY_ACTOR_TESTING_ACTOR_CHECKPOINTS_H_
#define DING_WORKER_POLICY_ACTOR_TESTING_ACTOR_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct ActorCase {
  std::string name;    // letters and digits
  std::string config;  // PolicyConfig in the text format
  SpecPtr observation;
  SpecPtr action;
};

// Networks without libtorch: layers, activations, dueling, memory, masks, normalized observations,
// several fields; discrete, multi-discrete and continuous actions.
std::vector<ActorCase> ActorCases();
// Networks with libtorch: convolutions, and the others in torch. The program links their factories.
std::vector<ActorCase> TorchActorCases();
// Returns the case of that name among ActorCases(); ends the program if there is none.
ActorCase FindActorCase(const std::string& name);

// Makes the policy with random parameters; its collect mode draws with the stream of an actor of
// `seed`.
std::unique_ptr<Policy> MakeRandomPolicy(const ActorCase& of, uint64_t seed = 0);
// Returns the content of the manifest of a checkpoint of the case, at env step 1000.
CheckpointInfo ActorCheckpointInfo(const ActorCase& of);
// Writes the checkpoint of `policy` to the folder `path`; `change`, if set, changes the manifest.
void SaveActorCheckpoint(const ActorCase& of, Policy* policy, const std::string& path,
                         const std::function<void(CheckpointInfo*)>& change = {});

// Writes a checkpoint with random parameters for a head that no case has: layers from 5 numbers to
// `outputs`, and an action of 2 numbers.
void SaveHeadCheckpoint(const std::string& head, const std::vector<std::string>& outputs,
                        const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_TESTING_ACTOR_CHECKPOINTS_H_
