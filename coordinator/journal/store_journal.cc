#include "ding_worker/coordinator/journal/store_journal.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr absl::string_view kOwnerName = "owner";
constexpr absl::string_view kHeadName = "head";
constexpr absl::string_view kVersion = "1 ";  // a head begins with it
constexpr size_t kSinceDigits = 16;           // the time at the beginning of an owner
constexpr absl::string_view kBeginAnew =
    "begin a new run, from a checkpoint of this one if there is one";

// Appends a frame: the length of the record, and the record.
void AppendFrame(const JournalRecord& record, std::string* frames) {
  AppendNumber(static_cast<uint32_t>(record.ByteSizeLong()), frames);
  record.AppendToString(frames);
}

// Calls `visit(record, frame)` for each frame.
template <typename Visit>
absl::Status VisitFrames(absl::string_view frames, Visit visit) {
  ByteCursor cursor(frames);
  while (cursor.left() > 0) {
    const size_t begin = frames.size() - cursor.left();
    const auto size = cursor.Take<uint32_t>();
    const absl::string_view bytes = cursor.TakeBytes(size);
    JournalRecord record;
    if (!cursor.ok()) return absl::DataLossError("has a record that is cut off");
    const absl::Status parsed = ParseProto(bytes, &record, kMaxParsedRecordBytes);
    if (!parsed.ok()) {
      return absl::DataLossError(
          absl::StrCat("has a record that cannot be parsed: ", parsed.message()));
    }
    DING_RETURN_IF_ERROR(visit(record, frames.substr(begin, sizeof(size) + bytes.size())));
  }
  return absl::OkStatus();
}

std::string OwnerKey() { return absl::StrCat(kJournalPrefix, kOwnerName); }

// Returns the name of a new owner, greater than those of all owners before.
std::string NewOwner(absl::string_view greatest) {
  uint64_t since = 0;
  if (!absl::SimpleHexAtoi(greatest.substr(0, kSinceDigits), &since)) since = 0;
  since = std::max(since + 1, static_cast<uint64_t>(absl::ToUnixMicros(Clock::Real()->Now())));
  std::random_device random;
  return absl::StrCat(absl::Hex(since, absl::kZeroPad16), "-",
                      absl::Hex(random(), absl::kZeroPad8));
}

// The generations in the store: for each folder the names of its values, without the folder.
using Listing = std::map<std::string, std::vector<std::string>>;

absl::StatusOr<Listing> ListGenerations(Store* store) {
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(kJournalPrefix));
  Listing generations;
  for (const std::string& key : keys) {
    const size_t slash = key.rfind('/') + 1;
    if (slash > absl::string_view(kJournalPrefix).size()) {
      generations[key.substr(0, slash)].push_back(key.substr(slash));
    }
  }
  return generations;
}

std::string OwnerOf(absl::string_view folder) {
  const std::vector<absl::string_view> parts = absl::StrSplit(folder, '/');
  return parts.size() > 1 ? std::string(parts[1]) : "";
}

std::string EntryName(size_t number) { return absl::StrCat(absl::Hex(number, absl::kZeroPad8)); }

// The error for entries that the store has lost. Note() turns it into another one before callers see it.
absl::Status EntriesLost() {
  return absl::DataLossError("the store has lost entries that were put");
}

}  // namespace

struct StoreJournal::Generation {
  std::string KeyOf(size_t entry) const { return absl::StrCat(folder, EntryName(entry)); }
  std::string head() const { return absl::StrCat(folder, kHeadName); }
  // Returns all keys that may be in the store.
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys = {head()};
    // One more than there are entries: the next one may have been put by a call that failed.
    for (size_t i = 1; i <= entries.size() + 1; ++i) keys.push_back(KeyOf(i));
    return keys;
  }

  std::string folder;
  std::vector<Entry> entries;
  int64_t size_bytes = 0;
  std::string last_key;      // the key that was put last
  bool may_be_read = false;  // whether its head may be in the store
  std::string block;         // the frames of the next entry
};

struct StoreJournal::Rewrite {
  std::string source;  // folder of the generation that is compacted
  size_t copied = 0;   // the number of its entries that are copied
  Generation generation;
};

StoreJournal::StoreJournal(const Options& options, std::string owner)
    : options_(options),
      store_(options.store),
      owner_(std::move(owner)),
      current_(std::make_unique<Generation>()) {}

StoreJournal::~StoreJournal() = default;

absl::StatusOr<std::unique_ptr<StoreJournal>> StoreJournal::Open(const Options& options) {
  Store* const store = options.store;
  DING_ASSIGN_OR_RETURN(const Listing found, ListGenerations(store));
  std::string greatest;
  const absl::Status read = store->Get(OwnerKey(), &greatest);
  if (absl::IsNotFound(read)) {
    greatest.clear();
  } else {
    DING_RETURN_IF_ERROR(read);
  }
  if (!found.empty()) greatest = std::max(greatest, OwnerOf(found.rbegin()->first));
  if (greatest.empty() && options.must_exist) {
    return absl::NotFoundError(absl::StrCat(
        "store '", store->url(),
        "' has no journal of this run: it had converged, and nothing of it was left there, or the "
        "store was emptied, or restarted without its data; ",
        kBeginAnew));
  }
  auto journal = absl::WrapUnique(new StoreJournal(options, NewOwner(greatest)));
  DING_RETURN_IF_ERROR(store->Put(OwnerKey(), {absl::string_view(journal->owner_)}));
  DING_RETURN_IF_ERROR(journal->Load());
  return journal;
}

absl::Status StoreJournal::Load() {
  MutexLock lock(&mutex_);
  // List the store once more: now that this is the owner, all that the last owner has acknowledged is there.
  DING_ASSIGN_OR_RETURN(const Listing found, ListGenerations(store_));
  const auto annotated = [this](const absl::Status& status) {
    return Annotate(status, absl::StrCat("the journal in store '", store_->url(), "'"));
  };
  const auto damaged = [&](absl::string_view what) {
    return annotated(absl::DataLossError(absl::StrCat(what, "; ", kBeginAnew)));
  };
  Generation loaded;
  size_t begins_with = 0;
  for (const auto& [folder, names] : found) {
    if (OwnerOf(folder) > owner_) return Note(absl::AbortedError(""));
    if (std::find(names.begin(), names.end(), kHeadName) != names.end()) loaded.folder = folder;
  }
  if (loaded.folder.empty() && !found.empty()) return damaged("lacks its beginning");
  if (loaded.folder.empty()) {
    if (options_.must_exist) return damaged("is gone, except for the name of its owner");
    current_ = std::make_unique<Generation>();
    return Renew(nullptr);
  }
  std::string head;
  DING_RETURN_IF_ERROR(annotated(store_->Get(loaded.head(), &head)));
  if (!absl::StartsWith(head, kVersion)) {
    return annotated(absl::FailedPreconditionError(absl::StrCat(
        "is of another version of the coordinator: it has version ",
        absl::CHexEscape(head.substr(0, std::min<size_t>(head.find(' '), 20))),
        ", this program reads version ", absl::StripTrailingAsciiWhitespace(kVersion))));
  }
  if (!absl::SimpleAtoi(absl::StripPrefix(head, kVersion), &begins_with)) {
    return damaged("has a head that cannot be parsed");
  }
  for (const std::string& name : found.at(loaded.folder)) {
    if (name == kHeadName) continue;
    if (name != EntryName(loaded.entries.size() + 1)) {
      return damaged(absl::StrCat("has no entry ", loaded.entries.size() + 1,
                                  ", but later ones: the store has lost it"));
    }
    auto entry = std::make_shared<std::string>();
    const absl::Status got = store_->Get(absl::StrCat(loaded.folder, name), entry.get());
    if (absl::IsNotFound(got) || absl::IsDataLoss(got)) return damaged(got.message());
    DING_RETURN_IF_ERROR(annotated(got));
    DING_RETURN_IF_ERROR(annotated(
        VisitFrames(*entry, [](const JournalRecord&, auto) { return absl::OkStatus(); })));
    loaded.size_bytes += static_cast<int64_t>(entry->size());
    loaded.entries.push_back(std::move(entry));
  }
  if (loaded.entries.size() < begins_with) {
    return damaged(absl::StrCat("has ", loaded.entries.size(), " entries of the ", begins_with,
                                " that it began with: the store has lost the others"));
  }
  for (const auto& [folder, names] : found) {
    if (folder == loaded.folder) continue;
    for (const std::string& name : names) dropped_later_.push_back(absl::StrCat(folder, name));
  }
  size_bytes_ = loaded.size_bytes;
  *current_ = std::move(loaded);
  return absl::OkStatus();
}

absl::Status StoreJournal::Read(const Visitor& visit) const {
  for (const Entry& entry : EntriesNow()) {
    DING_RETURN_IF_ERROR(
        VisitFrames(*entry, [&visit](const JournalRecord& record, auto) { return visit(record); }));
  }
  return absl::OkStatus();
}

absl::Status StoreJournal::Append(absl::Span<const JournalRecord> records) {
  auto frames = std::make_shared<std::string>();
  for (const JournalRecord& record : records) AppendFrame(record, frames.get());
  const Entry entry = std::move(frames);
  const int64_t failures = failures_.load();
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(replaced_);
  // If a call failed while this one waited for the lock, this one fails in the same way and does not
  // wait for the silent store again.
  if (failures_.load() != failures) return last_failure_;
  if (must_renew_) return Renew(entry);
  std::string last_key = current_->last_key;
  absl::Status status = PutNext(current_->KeyOf(current_->entries.size() + 1), *entry, &last_key);
  if (status.ok()) status = CheckOwner();
  if (absl::IsDataLoss(status)) {
    DING_LOG(WARNING) << "store '" << store_->url() << "' has lost the newest entries";
    return Renew(entry);
  }
  if (!status.ok()) return Note(status);
  current_->last_key = std::move(last_key);
  current_->entries.push_back(entry);
  current_->size_bytes += static_cast<int64_t>(entry->size());
  size_bytes_ = current_->size_bytes;
  return absl::OkStatus();
}

bool StoreJournal::WantsCompaction() const {
  return IsWorthCompacting(size_bytes_.load(), compacted_bytes_.load(),
                           options_.min_compaction_bytes);
}

absl::Status StoreJournal::BeginCompaction(const IsAlive& alive) {
  DropReplaced();  // This may make room for the compaction.
  auto rewrite = std::make_unique<Rewrite>();
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(replaced_);
    // Otherwise the first append during the compaction would renew the journal, and the compaction would be in vain.
    if (must_renew_) DING_RETURN_IF_ERROR(Renew(nullptr));
    rewrite->source = current_->folder;
    rewrite->generation = NewGeneration();
  }
  const absl::Status copied = CopyLive(alive, rewrite.get());
  if (!copied.ok()) {
    MutexLock lock(&mutex_);
    Abandon(rewrite->generation);
    return Note(copied);
  }
  rewrite_ = std::move(rewrite);
  return absl::OkStatus();
}

absl::Status StoreJournal::CopyLive(const IsAlive& alive, Rewrite* rewrite) const {
  std::vector<Entry> source = EntriesNow();
  Generation* const to = &rewrite->generation;
  LivePushes live(alive);
  for (const Entry& entry : source) {
    DING_RETURN_IF_ERROR(VisitFrames(*entry, [&live](const JournalRecord& record, auto) {
      live.NoteRemoved(record);
      return absl::OkStatus();
    }));
  }
  for (const Entry& entry : source) {
    DING_RETURN_IF_ERROR(
        VisitFrames(*entry, [&](const JournalRecord& record, absl::string_view frame) {
          return live.Keeps(record) ? Add(frame, to) : absl::OkStatus();
        }));
  }
  if (live.still_removed().has_removed()) {
    std::string frame;
    AppendFrame(live.still_removed(), &frame);
    DING_RETURN_IF_ERROR(Add(frame, to));
  }
  rewrite->copied = source.size();
  for (int round = 0; round < kMaxTailRounds; ++round) {
    source = EntriesNow();
    // The journal was renewed meanwhile; FinishCompaction() returns the error.
    if (source.size() < rewrite->copied) break;
    int64_t tail = 0;
    for (size_t i = rewrite->copied; i < source.size(); ++i) {
      tail += static_cast<int64_t>(source[i]->size());
    }
    if (tail <= kShortTailBytes) break;
    DING_RETURN_IF_ERROR(CopyTail(source, rewrite));
  }
  return Flush(to);
}

// Copies the entries that were appended after those that were copied before.
absl::Status StoreJournal::CopyTail(const std::vector<Entry>& source, Rewrite* rewrite) const {
  for (; rewrite->copied < source.size(); ++rewrite->copied) {
    DING_RETURN_IF_ERROR(VisitFrames(
        *source[rewrite->copied], [&](const JournalRecord& record, absl::string_view frame) {
          return StaysInTail(record) ? Add(frame, &rewrite->generation) : absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

absl::Status StoreJournal::FinishCompaction(absl::Span<const JournalRecord> state) {
  const std::unique_ptr<Rewrite> rewrite = std::move(rewrite_);
  Generation* const to = &rewrite->generation;
  std::string frames;
  for (const JournalRecord& record : state) AppendFrame(record, &frames);
  MutexLock lock(&mutex_);
  absl::Status status = replaced_;
  if (status.ok() && current_->folder != rewrite->source) {
    status = absl::UnavailableError(absl::StrCat("the journal in store '", store_->url(),
                                                 "' was begun anew while it was compacted"));
  }
  if (status.ok()) status = CopyTail(current_->entries, rewrite.get());
  if (status.ok()) status = Add(frames, to);
  if (status.ok()) status = Publish(to);
  if (!status.ok()) {
    Abandon(*to);
    return Note(status);
  }
  Replace(std::move(*to));
  compacted_bytes_ = size_bytes_.load();
  ++compactions_;
  return absl::OkStatus();
}

void StoreJournal::DropReplaced() {
  std::vector<std::string> keys;
  {
    MutexLock lock(&mutex_);
    keys.swap(dropped_);
  }
  DropKeys(&keys);
  MutexLock lock(&mutex_);
  if (replaced_.ok()) dropped_.insert(dropped_.end(), keys.begin(), keys.end());
}

// Deletes the keys in the store, and leaves those in `keys` that could not be deleted.
void StoreJournal::DropKeys(std::vector<std::string>* keys) const {
  while (!keys->empty() && store_->Delete(keys->back()).ok()) keys->pop_back();
}

std::vector<StoreJournal::Entry> StoreJournal::EntriesNow() const {
  MutexLock lock(&mutex_);
  return current_->entries;
}

StoreJournal::Generation StoreJournal::NewGeneration() {
  Generation generation;
  generation.folder = absl::StrCat(kJournalPrefix, owner_, "/", EntryName(++last_number_), "/");
  return generation;
}

absl::Status StoreJournal::Add(absl::string_view frames, Generation* generation) const {
  generation->block.append(frames.data(), frames.size());
  const auto size = static_cast<int64_t>(generation->block.size());
  return size < options_.entry_bytes ? absl::OkStatus() : Flush(generation);
}

absl::Status StoreJournal::Flush(Generation* generation) const {
  if (generation->block.empty()) return absl::OkStatus();
  auto entry = std::make_shared<const std::string>(std::move(generation->block));
  generation->block.clear();
  DING_RETURN_IF_ERROR(
      PutNext(generation->KeyOf(generation->entries.size() + 1), *entry, &generation->last_key));
  generation->size_bytes += static_cast<int64_t>(entry->size());
  generation->entries.push_back(std::move(entry));
  return absl::OkStatus();
}

// Puts the value. Returns EntriesLost() if the value that was put before it is no longer there.
absl::Status StoreJournal::PutNext(const std::string& key, absl::string_view value,
                                   std::string* last_key) const {
  DING_RETURN_IF_ERROR(store_->Put(key, {value}));
  if (!last_key->empty()) {
    std::string before;
    const absl::Status there = store_->Get(*last_key, &before);
    if (absl::IsNotFound(there)) return EntriesLost();
    DING_RETURN_IF_ERROR(there);
  }
  *last_key = key;
  return absl::OkStatus();
}

absl::Status StoreJournal::Publish(Generation* generation) const {
  DING_RETURN_IF_ERROR(Flush(generation));
  const std::string head = absl::StrCat(kVersion, generation->entries.size());
  generation->may_be_read = true;
  DING_RETURN_IF_ERROR(PutNext(generation->head(), head, &generation->last_key));
  absl::Status status = CheckOwner();
  if (absl::IsDataLoss(status)) {
    status = store_->Put(OwnerKey(), {absl::string_view(owner_)});
    if (status.ok()) status = CheckOwner();
    DING_LOG_IF(WARNING, status.ok())
        << "store '" << store_->url() << "' had no journal any more: it was emptied, or restarted "
        << "without its data; all of it was put there again";
  }
  // A coordinator that opens the journal now reads this generation, so no entry may be added to the
  // one before.
  return absl::IsResourceExhausted(status) ? absl::UnavailableError(status.message()) : status;
}

absl::Status StoreJournal::CheckOwner() const {
  std::string found;
  const absl::Status read = store_->Get(OwnerKey(), &found);
  if (absl::IsNotFound(read)) return EntriesLost();
  DING_RETURN_IF_ERROR(read);
  if (found == owner_) return absl::OkStatus();
  // An older owner found the store without an owner, so the store has lost its data. A newer one goes on with the run.
  return found > owner_ ? absl::AbortedError("") : EntriesLost();
}

absl::Status StoreJournal::Renew(const Entry& entry) {
  DropKeys(&dropped_);  // The keys of the last attempt may take the room that this one needs.
  Generation generation = NewGeneration();
  absl::Status status;
  for (size_t i = 0; status.ok() && i < current_->entries.size(); ++i) {
    status = Add(*current_->entries[i], &generation);
  }
  if (status.ok() && entry != nullptr) status = Add(*entry, &generation);
  if (status.ok()) status = Publish(&generation);
  if (!status.ok()) {
    Abandon(generation);
    must_renew_ = true;
    return Note(status);
  }
  Replace(std::move(generation));
  return absl::OkStatus();
}

void StoreJournal::Replace(Generation generation) {
  if (!current_->folder.empty()) Abandon(*current_);
  dropped_.insert(dropped_.end(), dropped_later_.begin(), dropped_later_.end());
  dropped_later_.clear();
  *current_ = std::move(generation);
  size_bytes_ = current_->size_bytes;
  must_renew_ = false;
}

void StoreJournal::Abandon(const Generation& generation) {
  const std::vector<std::string> keys = generation.Keys();
  std::vector<std::string>* const dropped = generation.may_be_read ? &dropped_later_ : &dropped_;
  dropped->insert(dropped->end(), keys.begin(), keys.end());
}

absl::Status StoreJournal::Note(const absl::Status& status) {
  if (absl::IsAborted(status)) {
    replaced_ = absl::AbortedError(
        absl::StrCat("another coordinator goes on with this run: the journal in store '",
                     store_->url(), "' is its own"));
    dropped_.clear();  // The other coordinator deletes them.
    dropped_later_.clear();
    return replaced_;
  }
  // After these errors it is certain that nothing was written.
  if (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status)) return status;
  must_renew_ = true;
  if (absl::IsDataLoss(status)) {
    return absl::UnavailableError(
        absl::StrCat("store '", store_->url(),
                     "' has lost the journal while it was written: it was "
                     "emptied, or restarted without its data"));
  }
  if (absl::IsUnavailable(status)) {
    last_failure_ = status;
    ++failures_;
  }
  return status;
}

}  // namespace ding
