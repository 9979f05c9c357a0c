#include "ding_worker/env/probe_env_spec.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/fork_server.h"
#include "ding_worker/env/process_end.h"
#include "ding_worker/env/process_memory.h"
#include "ding_worker/env/process_message.h"

namespace ding {
namespace {

bool in_probe = false;  // set by the process of a probe, which has one thread

}  // namespace

bool InEnvProbe() { return in_probe; }

absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout) {
  return ProbeEnvSpec(
      [&factory](ProcessMemory* memory) {
        const absl::StatusOr<std::unique_ptr<Env>> env = BuildEnv(factory);
        ProcessMessageWriter message;
        Put(env.status(), &message);
        if (env.ok()) Put((*env)->spec(), &message);
        return memory->PutMessage(0, message.bytes()) ? 0 : 1;
      },
      timeout, /*rest=*/nullptr);
}

absl::StatusOr<EnvSpec> ProbeEnvSpec(const std::function<int(ProcessMemory*)>& run,
                                     absl::Duration timeout, std::string* rest) {
  // A spec is a message like any other; an empty one makes room for it.
  EnvSpec none;
  DING_ASSIGN_OR_RETURN(none.observation, MakeSpec({}));
  none.action = none.observation;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessMemory> memory,
                        ProcessMemory::Create(none, 1, 1));
  ForkServer::Options options;
  options.run = [&run, &memory](int) {
    in_probe = true;
    return run(memory.get());
  };
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ForkServer> server,
                        ForkServer::Start(std::move(options)));
  DING_RETURN_IF_ERROR(server->Spawn(0));
  if (!server->WaitForEnd(0, timeout)) {
    DING_RETURN_IF_ERROR(server->Alive());
    return absl::DeadlineExceededError(
        absl::StrCat("it was not built in ", absl::FormatDuration(timeout), " (connect_timeout)"));
  }
  if (server->wait_status(0) != 0) return WhyProcessEnded(*server, 0, 0, absl::OkStatus());
  ProcessMessageReader in(memory->message(0));
  DING_RETURN_IF_ERROR(TakeStatus(&in));
  EnvSpec spec;
  DING_RETURN_IF_ERROR(TakeEnvSpec(&in, &spec));
  if (rest != nullptr) *rest = std::string(in.Bytes());
  return spec;
}

}  // namespace ding
