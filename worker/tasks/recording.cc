#include "ding_worker/worker/tasks/recording.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/version.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/model_digest.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

constexpr size_t kMaxPendingBytes = size_t{1} << 20;
constexpr absl::Duration kCommitPeriod = absl::Seconds(1);
constexpr size_t kHeadBytes = sizeof(uint64_t) + sizeof(uint32_t);

// Appends `part` with its frame.
void Frame(absl::string_view part, std::string* to) {
  const size_t begin = to->size();
  AppendNumber(static_cast<uint64_t>(part.size()), to);
  AppendNumber(Crc32c(absl::string_view(*to).substr(begin)), to);
  to->append(part.data(), part.size());
  AppendNumber(Crc32c(part), to);
}

// Opens a file and locks it against all others.
absl::StatusOr<OpenFile> OpenLocked(const std::string& path, int flags) {
  DING_ASSIGN_OR_RETURN(OpenFile file, OpenRegularFile(path, flags | O_CLOEXEC, 0644));
  if (flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return file;
  return absl::FailedPreconditionError(
      absl::StrCat("recording '", path, "' is in use: its learner still works"));
}

std::string PathOf(const std::string& folder, int64_t number) {
  return JoinPath(folder, absl::StrCat("learner_", number));
}

std::string WorkerPath(const std::string& exp_dir, uint32_t worker) {
  return JoinPath(RecordingFolder(exp_dir), absl::StrCat("worker_", worker));
}

}  // namespace

std::string RecordingFolder(const std::string& exp_dir) { return JoinPath(exp_dir, "recording"); }

absl::Status NameRecordedWorker(const std::string& exp_dir, uint32_t worker,
                                absl::string_view name) {
  DING_RETURN_IF_ERROR(CreateDirectories(RecordingFolder(exp_dir)));
  return WriteFileAtomically(WorkerPath(exp_dir, worker), name);
}

std::string RecordedWorker(const std::string& exp_dir, uint32_t worker) {
  const absl::StatusOr<std::string> name = ReadFile(WorkerPath(exp_dir, worker));
  return name.ok() ? *name : absl::StrCat("worker ", worker);
}

absl::StatusOr<std::unique_ptr<RecordingWriter>> RecordingWriter::Create(
    const std::string& exp_dir, const ExperimentConfig& config, const LearnerTask& task,
    int place) {
  const std::string folder = RecordingFolder(exp_dir);
  DING_RETURN_IF_ERROR(CreateDirectories(folder));
  int64_t number = 1;
  int64_t left = config.system().record_bytes();
  for (; PathExists(PathOf(folder, number)); ++number) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(PathOf(folder, number), error);
    if (!error) left -= static_cast<int64_t>(size);
  }
  DING_ASSIGN_OR_RETURN(OpenFile file,
                        OpenLocked(PathOf(folder, number), O_WRONLY | O_CREAT | O_APPEND));
  RecordedStart start;
  start.set_version(DING_WORKER_VERSION);
  start.set_config(PrintTextConfig(config));
  start.set_place(place);
  *start.mutable_task() = task;
  // Otherwise the config and its seed make what the learner begins with.
  const bool loads = task.has_init_policy() ||
                     !config.policy().learn().learner().hook().load_ckpt_before_run().empty();
  if (loads) start.set_state("");
  return absl::WrapUnique(new RecordingWriter(std::move(file), std::move(start), left));
}

RecordingWriter::RecordingWriter(OpenFile file, RecordedStart start, int64_t max_bytes)
    : file_(std::move(file)),
      max_bytes_(max_bytes),
      start_(std::move(start)),
      since_commit_(Clock::Real()) {}

RecordingWriter::~RecordingWriter() {
  MutexLock lock(&mutex_);
  Commit();
}

void RecordingWriter::BeginOnce(const LearnerView& learner) {
  if (!start_.has_value()) return;
  RecordedPart part;
  RecordedStart* const start = part.mutable_start();
  *start = *std::exchange(start_, std::nullopt);
  start->set_train_iter(learner.train_iter());
  absl::Status status;
  if (start->has_state() || learner.train_iter() > 0) {
    const absl::StatusOr<EncodedBatch> state = EncodeLearner(learner);
    status = state.status();
    if (status.ok()) start->set_state(state->ToString());
  }
  MutexLock lock(&mutex_);
  if (!status.ok()) return End(std::string(status.message()));
  Frame(part.SerializeAsString(), &pending_);
  Commit();
}

void RecordingWriter::AddChunk(int64_t chunk, absl::string_view bytes) {
  MutexLock lock(&mutex_);
  if (ended_ || !chunks_.insert(chunk).second) return;
  RecordedPart part;
  part.mutable_chunk()->set_chunk(chunk);
  part.mutable_chunk()->set_bytes(bytes.data(), bytes.size());
  Frame(part.SerializeAsString(), &pending_);
  if (IsDue()) Commit();
}

void RecordingWriter::AddBatch(const LearnerView& learner, const TrainData& data) {
  BeginOnce(learner);
  RecordedPart part;
  RecordedBatch* const batch = part.add_event()->mutable_batch();
  batch->set_number(++batches_);
  batch->set_train_iter(learner.train_iter());
  batch->set_envstep(data.envstep);
  batch->set_items(data.items);
  Add(part);
}

void RecordingWriter::AddEvaluation(const EvaluationResult& result) {
  RecordedPart part;
  *part.add_event()->mutable_evaluation() = result;
  Add(part);
}

void RecordingWriter::AddVersion(const PolicyVersion& version, const LearnerView& learner) {
  BeginOnce(learner);
  if (ended()) return;  // Digests take time.
  const auto digests = TensorDigests(*learner.policy());
  if (!digests.ok()) return;  // It could not be published either.
  RecordedPart part;
  RecordedVersion* const recorded = part.add_event()->mutable_version();
  recorded->set_version(version.version());
  recorded->set_train_iter(version.train_iter());
  for (const auto& [name, crc] : *digests) recorded->add_tensor_crc(crc);
  Add(part);
}

void RecordingWriter::Add(const RecordedPart& events) {
  MutexLock lock(&mutex_);
  if (ended_) return;
  // Messages one after the other are one with all of their events.
  events.AppendToString(&events_);
  if (IsDue()) Commit();
}

bool RecordingWriter::IsDue() const {
  return pending_.size() + events_.size() >= kMaxPendingBytes ||
         since_commit_.Elapsed() >= kCommitPeriod;
}

void RecordingWriter::Commit() {
  if (ended_) return;
  if (!events_.empty()) Frame(events_, &pending_);
  if (written_ + static_cast<int64_t>(pending_.size()) > max_bytes_) {
    return End("the recordings of the run reach system.record_bytes");
  }
  const absl::Status written = Write(pending_);
  if (!written.ok()) return End(std::string(written.message()));
  pending_.clear();
  events_.clear();
  since_commit_ = Timer(Clock::Real());
}

absl::Status RecordingWriter::Write(absl::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t count = write(file_.fd(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const absl::Status why = ErrnoStatus(errno, "cannot write the recording");
      // What was written of a part is cut off; a reader takes what cannot be cut off for the end.
      return ftruncate(file_.fd(), written_) == 0 ? why : Annotate(why, "and not cut it off");
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  written_ += size;
  return absl::OkStatus();
}

void RecordingWriter::End(const std::string& why) {
  DING_LOG(WARNING) << "what the learner does is not recorded any more, and the run goes on: "
                    << why;
  RecordedPart part;
  part.add_event()->set_end(why);
  pending_.clear();
  Frame(part.SerializeAsString(), &pending_);
  Write(pending_).IgnoreError();  // A reader sees the end of the file all the same.
  ended_ = true;
  pending_.clear();
  events_.clear();
}

absl::StatusOr<std::vector<std::string>> RecordingReader::Find(const std::string& exp_dir) {
  std::vector<std::string> paths;
  const std::string folder = RecordingFolder(exp_dir);
  for (int64_t number = 1; PathExists(PathOf(folder, number)); ++number) {
    std::error_code error;
    // Its learner may have ended before it began.
    if (std::filesystem::file_size(PathOf(folder, number), error) == 0) continue;
    paths.push_back(PathOf(folder, number));
  }
  if (!paths.empty()) return paths;
  return absl::FailedPreconditionError(
      absl::StrCat("there is no '", PathOf(folder, 1),
                   "': the run was not recorded, or its learner was on another machine; a run is "
                   "recorded with --record"));
}

RecordingReader::RecordingReader(OpenFile file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<RecordingReader>> RecordingReader::Open(const std::string& path) {
  DING_ASSIGN_OR_RETURN(OpenFile file, OpenLocked(path, O_RDONLY));
  auto reader = absl::WrapUnique(new RecordingReader(std::move(file), path));
  DING_RETURN_IF_ERROR(reader->Scan());
  return reader;
}

absl::Status RecordingReader::Gone(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat("recording '", path_, "': ", what, " is damaged or gone"));
}

absl::Status RecordingReader::Scan() {
  absl::Status damaged;  // the first part that is
  int64_t next = 0;
  for (int64_t place = 0;; place = next) {
    RecordedPart part;
    const absl::Status read = Read(place, &part, &next);
    if (absl::IsOutOfRange(read)) break;
    damaged.Update(read);
    if (!read.ok() && next > 0) continue;  // A batch that lacks a chunk can name it.
    DING_RETURN_IF_ERROR(read);
    if (part.has_start()) start_ = std::move(*part.mutable_start());
    if (part.has_chunk()) chunks_[ChunkKey(part.chunk().chunk())] = place;
    for (const RecordedEvent& event : part.event()) {
      if (event.has_batch()) DING_RETURN_IF_ERROR(CheckBatch(event.batch()));
    }
    if (part.event_size() > 0) events_.push_back(place);
  }
  DING_RETURN_IF_ERROR(damaged);
  if (start_.version() == DING_WORKER_VERSION) return absl::OkStatus();
  if (!start_.has_version()) return Gone("its beginning");
  return absl::FailedPreconditionError(absl::StrCat("recording '", path_, "' is of ding_worker ",
                                                    start_.version(), ", expected ",
                                                    DING_WORKER_VERSION));
}

absl::Status RecordingReader::CheckBatch(const RecordedBatch& batch) {
  ++batches_;
  if (batch.number() != batches_) return Gone(absl::StrCat("batch ", batches_));
  DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(batch.items()));
  DING_RETURN_IF_ERROR(CheckItemFields(items.spec()));
  for (const int64_t chunk : items.column<int64_t>(kColumnChunk)) {
    if (chunks_.contains(ChunkKey(chunk))) continue;
    return Gone(absl::StrCat("chunk '", ChunkKey(chunk),
                             "', of which the learner learned in iteration ",
                             batch.train_iter() + 1, ","));
  }
  return absl::OkStatus();
}

absl::Status RecordingReader::Read(int64_t place, RecordedPart* part, int64_t* next) {
  *next = 0;
  const auto read = [this](int64_t at, size_t size) -> absl::Status {
    bytes_.resize(size);
    size_t done = 0;
    while (done < size) {
      const ssize_t count = pread(file_.fd(), bytes_.data() + done, size - done,
                                  static_cast<off_t>(at) + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ErrnoStatus(errno, absl::StrCat("cannot read '", path_, "'"));
      if (count == 0) return absl::OutOfRangeError(absl::StrCat("'", path_, "' ends"));
      done += static_cast<size_t>(count);
    }
    return absl::OkStatus();
  };
  DING_RETURN_IF_ERROR(read(place, kHeadBytes));
  ByteCursor head(bytes_);
  const auto size = head.Take<uint64_t>();
  if (head.Take<uint32_t>() != Crc32c(absl::string_view(bytes_).substr(0, sizeof(size)))) {
    return Gone(absl::StrCat("what follows byte ", place));
  }
  const int64_t left = file_.size_bytes() - place - static_cast<int64_t>(kHeadBytes);
  if (size > static_cast<uint64_t>(left)) {
    return absl::OutOfRangeError(absl::StrCat("'", path_, "' ends"));
  }
  DING_RETURN_IF_ERROR(read(place + static_cast<int64_t>(kHeadBytes), size + sizeof(uint32_t)));
  *next = place + static_cast<int64_t>(kHeadBytes + size + sizeof(uint32_t));
  const absl::string_view bytes = absl::string_view(bytes_).substr(0, size);
  if (ByteCursor(absl::string_view(bytes_).substr(size)).Take<uint32_t>() == Crc32c(bytes) &&
      part->ParseFromArray(bytes.data(), static_cast<int>(size))) {
    return absl::OkStatus();
  }
  return Gone(absl::StrCat("the part at byte ", place));
}

absl::StatusOr<const RecordedEvent*> RecordingReader::Next() {
  while (next_event_ == part_.event_size()) {
    if (next_part_ == events_.size()) return nullptr;
    int64_t next = 0;
    DING_RETURN_IF_ERROR(Read(events_[next_part_++], &part_, &next));
    next_event_ = 0;
  }
  return &part_.event(next_event_++);
}

absl::StatusOr<std::string> RecordingReader::Chunk(absl::string_view key) {
  const auto found = chunks_.find(key);
  if (found == chunks_.end()) {
    return absl::NotFoundError(absl::StrCat("chunk '", key, "' is not recorded"));
  }
  RecordedPart part;
  int64_t next = 0;
  DING_RETURN_IF_ERROR(Read(found->second, &part, &next));
  return std::move(*part.mutable_chunk()->mutable_bytes());
}

}  // namespace ding
