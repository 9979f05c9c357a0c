// What the workers do.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/replay_buffer/testing/test_items.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;

void World::Connect(int index) {
  Agent* const agent = &agents_[static_cast<size_t>(index)];
  if (agent->gone || agent->session >= 0 || over_) return;
  const std::shared_ptr<Process> process = process_;
  if (now() < agent->stopped_until || process == nullptr || !process->alive || process->stopped ||
      !process->driver->paused().ok()) {
    In(Delay(200 * kMillis), [this, index] { Connect(index); });
    return;
  }
  Hello hello;
  hello.set_role(agent->role);
  hello.set_name(agent->name);
  hello.set_pid(agent->pid);
  hello.mutable_resources()->set_cpus(1);
  if (agent->number > 0) {
    hello.set_previous_worker(agent->number);
    hello.set_previous_incarnation(agent->incarnation);
  }
  Event admit;
  *admit.mutable_admit() = hello;
  const RunDriver::Result result = Apply(process, &admit);
  AfterEvents(process);
  if (!result.status.ok() || !process->alive || !process->driver->paused().ok()) {
    In(Delay(500 * kMillis), [this, index] { Connect(index); });
    return;
  }
  if (!numbers_.insert(result.admitted).second) {
    Break("no number is given twice", absl::StrCat(result.admitted));
  }
  Event joined;
  joined.set_worker(result.admitted);
  *joined.mutable_joined()->mutable_hello() = hello;
  joined.mutable_joined()->set_peer("peer");
  for (std::string& key : process->driver->PreviousKeys(hello)) {
    joined.mutable_joined()->add_previous_key(std::move(key));
  }
  Agent fresh;
  fresh.role = agent->role;
  fresh.name = agent->name;
  fresh.pid = agent->pid;
  fresh.life = agent->life;
  fresh.number = result.admitted;
  fresh.incarnation = process->driver->state().incarnation;
  fresh.session = static_cast<int>(sessions_.size());
  fresh.version = agent->version;
  fresh.stopped_until = agent->stopped_until;
  fresh.last_data = std::move(agent->last_data);
  fresh.last_data_number = agent->last_data_number;
  *agent = std::move(fresh);
  Session session;
  session.process = process;
  session.agent = index;
  session.life = agent->life;
  session.number = agent->number;
  sessions_.push_back(std::move(session));
  Trace(agent->name, " joins as ", agent->number);
  Apply(process, &joined);
  AfterEvents(process);
}

// The worker notices that its session is over, and joins again.
void World::CutAtWorker(int index, const std::string& why) {
  Session& session = sessions_[static_cast<size_t>(index)];
  if (!session.open) return;
  session.open = false;
  Agent& agent = agents_[static_cast<size_t>(session.agent)];
  if (agent.session != index) return;
  Trace(agent.name, " has lost its session: ", why);
  agent.session = -1;
  agent.has_task = false;
  const int number = session.agent;
  In(Delay(100 * kMillis), [this, number] { Connect(number); });
}

void World::Cut(int index, bool half_open) {
  const uint64_t who = half_open ? rng_.UniformInt(3) : 3;
  if (half_open) In(kLease, [this, index] { EndLease(index); });
  sessions_[static_cast<size_t>(index)].silent = who == 2;
  const char* const why = "the connection is cut";
  if (who == 1 || who == 3) In(Delay(mean_delay_), [this, index, why] { LoseWorker(index, why); });
  if (who == 0 || who == 3) CutAtWorker(index, why);
}

void World::EndLease(int index) {
  CutAtWorker(index, "the lease ran out");
  LoseWorker(index, "the lease ran out");
}

void World::StopWorker(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  const int64_t length = Delay(2 * kSecond);
  agent.stopped_until = std::max(agent.stopped_until, now() + length);
  if (length < kLease || agent.session < 0) return;
  const int session = agent.session;
  In(kLease, [this, session] { LoseWorker(session, "the lease ran out"); });
  At(agent.stopped_until, [this, session] { CutAtWorker(session, "the lease ran out"); });
}

void World::Leave(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  Trace(agent.name, " leaves");
  agent.gone = true;
  agent.has_task = false;
  const int session = agent.session;
  agent.session = -1;
  if (session < 0) return;
  sessions_[static_cast<size_t>(session)].open = false;
  In(Delay(mean_delay_), [this, session] { LoseWorker(session, "it leaves"); });
}

void World::Respawn(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  if (agent.gone) return;
  Agent fresh;
  fresh.role = agent.role;
  fresh.name = agent.name;
  fresh.pid = ++pids_;
  fresh.life = agent.life + 1;
  const int session = agent.session;
  agent = std::move(fresh);
  if (session >= 0) {
    sessions_[static_cast<size_t>(session)].open = false;
    In(Delay(mean_delay_), [this, session] { LoseWorker(session, "its process died"); });
  }
  In(Delay(300 * kMillis), [this, index] { Connect(index); });
}

void World::Send(int index, WorkerMessage message) {
  const int number = agents_[static_cast<size_t>(index)].session;
  if (number < 0 || sessions_[static_cast<size_t>(number)].silent) return;
  Note(static_cast<uint64_t>(number) * 32 + static_cast<uint64_t>(message.message_case()));
  Session& session = sessions_[static_cast<size_t>(number)];
  session.to_coordinator_nanos =
      std::max(session.to_coordinator_nanos + 1, now() + Delay(mean_delay_));
  At(session.to_coordinator_nanos, [this, number, message = std::move(message)]() mutable {
    Session& to = sessions_[static_cast<size_t>(number)];
    if (!to.coordinator_open || !to.process->alive) return;
    to.inbox.push_back(std::move(message));
    TakeInbox(number);
  });
}

void World::Receive(int number, const CoordinatorMessage& message) {
  Session& session = sessions_[static_cast<size_t>(number)];
  if (!session.open) return;
  Agent* const agent = &agents_[static_cast<size_t>(session.agent)];
  if (agent->session != number) return;
  if (now() < agent->stopped_until) {
    At(agent->stopped_until + 1, [this, number, message] { Receive(number, message); });
    return;
  }
  if (message.has_start_task()) {
    agent->task = message.start_task();
    agent->has_task = true;
    agent->steps = 0;
    agent->sent.clear();  // Nobody wants the data of the task before.
    agent->chunks_left = static_cast<int64_t>(rng_.UniformInt(6));
    if (agent->role == Hello::LEARNER) {
      agent->demand = agent->read = 0;
      agent->version = agent->task.learner().first_version();
      WorkerMessage started;
      started.mutable_task_started()->set_task_id(agent->task.learner().task_id());
      Send(session.agent, started);
    }
    ActSoon(session.agent, 30 * kMillis);
  } else if (message.has_close_task()) {
    agent->has_task = false;
  } else if (message.has_end_run()) {
    Leave(session.agent);
  } else if (message.has_collector_data_ack()) {
    agent->acknowledged = std::max(agent->acknowledged, message.collector_data_ack().sequence());
    while (!agent->sent.empty() && agent->sent.begin()->first <= agent->acknowledged) {
      for (const Row& row : agent->sent.begin()->second) NoteAcknowledged(*session.process, row);
      agent->sent.erase(agent->sent.begin());
    }
    ActSoon(session.agent, 5 * kMillis);
  } else if (message.has_learner_data()) {
    TakeAnswer(agent, message.learner_data());
    ActSoon(session.agent, 20 * kMillis);
  }
}

void World::NoteAcknowledged(const Process& process, const Row& row) {
  acknowledged_.insert(row);
  const std::vector<Row>& pushed = process.pushed;
  if (std::find(pushed.rbegin(), pushed.rend(), row) != pushed.rend()) return;
  Break("no acknowledged row is lost",
        absl::StrCat("row ", row.second, " of ", ChunkKey(row.first), " was never pushed"));
}

void World::ActSoon(int index, int64_t mean) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  if (agent.busy) return;
  agent.busy = true;
  const int session = agent.session;
  In(Delay(mean), [this, index, session] {
    Agent& acting = agents_[static_cast<size_t>(index)];
    if (acting.session != session) return;
    acting.busy = false;
    Act(index);
  });
}

void World::Act(int index) {
  Agent* const agent = &agents_[static_cast<size_t>(index)];
  if (!agent->has_task || agent->session < 0) return;
  if (now() < agent->stopped_until) {
    ActSoon(index, agent->stopped_until - now());
    return;
  }
  if (agent->role == Hello::LEARNER) {
    Learn(agent);
  } else {
    Collect(agent);
  }
}

void World::Collect(Agent* agent) {
  const int index = static_cast<int>(agent - agents_.data());
  const CollectorTask& task = agent->task.collector();
  if (!task.eval_flag() && agent->chunks_left > 0) {
    const size_t most =
        task.has_max_unacknowledged() ? std::max<size_t>(1, task.max_unacknowledged()) : kUnderWay;
    if (agent->sent.size() >= most) return;  // An acknowledgement makes it go on.
    --agent->chunks_left;
    const int64_t chunk = ChunkNumber(agent->number, agent->chunk++);
    store_.insert(ChunkKey(chunk));
    const int64_t rows = 1 + static_cast<int64_t>(rng_.UniformInt(5));
    std::vector<Item> items;
    for (int64_t row = 0; row < rows; ++row) items.push_back({chunk, row, 1});
    agent->steps += rows;
    true_steps_ += rows;
    WorkerMessage message;
    CollectorData* const data = message.mutable_collector_data();
    data->set_task_id(task.task_id());
    data->set_sequence(++agent->sequence);
    data->set_items(EncodedBatch(TestItems(items, -1).rows).ToString());
    data->mutable_progress()->set_cur_step(agent->steps);
    for (const Item& item : items) agent->sent[agent->sequence].emplace_back(item.chunk, item.row);
    agent->last_data = message.SerializeAsString();
    agent->last_data_number = agent->number;
    Send(index, std::move(message));
    ActSoon(index, 40 * kMillis);
    return;
  }
  if (!agent->sent.empty()) return;  // Its data are to be acknowledged before it finishes.
  WorkerMessage message;
  CollectorFinished* const info = message.mutable_collector_finished();
  info->set_task_id(task.task_id());
  info->set_eval_flag(task.eval_flag());
  info->set_collector_done(true);
  info->set_train_iter(-1);
  info->set_step_count(std::max<int64_t>(1, agent->steps));
  info->add_episode_return(1);
  agent->has_task = false;
  Send(index, std::move(message));
}

void World::Learn(Agent* agent) {
  const int index = static_cast<int>(agent - agents_.data());
  const LearnerTask& task = agent->task.learner();
  if (agent->demand < agent->read + 2) {
    WorkerMessage message;
    LearnerDemand* const demand = message.mutable_learner_demand();
    demand->set_task_id(task.task_id());
    demand->set_sequence(++agent->demand);
    demand->set_batch_size(1 + static_cast<int64_t>(rng_.UniformInt(4)));
    demand->set_batches(1 + static_cast<int>(rng_.UniformInt(2)));
    demand->set_train_iter(checkpoint_);
    demand->set_read(agent->read);
    Send(index, std::move(message));
    ActSoon(index, 10 * kMillis);
  }
}

void World::TakeAnswer(Agent* agent, const LearnerData& data) {
  const int index = static_cast<int>(agent - agents_.data());
  if (!agent->has_task || data.task_id() != agent->task.learner().task_id()) return;
  // Nobody waits for a learner whose session is over, or whose coordinator was replaced, or for the end of a run.
  const Session& session = sessions_[static_cast<size_t>(agent->session)];
  if (over_ || !session.coordinator_open || session.process->epoch < disk_.epoch()) return;
  for (const std::string& items : data.items()) {
    const Batch batch = DecodeBatch(items).value();
    for (const int64_t chunk : batch.column<int64_t>(kColumnChunk)) {
      if (Has(ChunkKey(chunk))) continue;
      Break("no data are deleted that somebody reads", ChunkKey(chunk));
    }
  }
  agent->read = data.sequence();
  ++checkpoint_;
  WorkerMessage info;
  info.mutable_learner_info()->set_task_id(data.task_id());
  info.mutable_learner_info()->set_learner_step(checkpoint_);
  Send(index, std::move(info));
  if (rng_.UniformInt(4) > 0) return;
  WorkerMessage message;
  PolicyVersion* const version = message.mutable_policy_version();
  version->set_policy_id(agent->task.learner().policy_id());
  version->set_version(agent->version++);
  version->set_train_iter(checkpoint_);
  version->set_key(PolicyKey(version->policy_id(), version->version(), agent->number));
  store_.insert(version->key());
  Send(index, std::move(message));
}

}  // namespace internal_simulation
}  // namespace ding
