// SPDX-License-Identifier: Apache-2.0
#include "recording/writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "base/start_thread.h"
#include "base/unique_fd.h"
#include "recording/byte_ring.h"

namespace forestall::recording {
namespace {

// Size of a chunk under load: chunks of four times this size save a twentieth of the bytes and need
// four times the memory.
constexpr std::size_t kChunkTarget = std::size_t{256} << 10;
// A key is requested after this many bytes or this much time, which bounds what a seeking reader
// skips.
constexpr std::uint64_t kKeyBytes = std::uint64_t{4} << 20;
constexpr Duration kKeyAge = std::chrono::minutes(1);

// Which entry wakes the thread. busy: none, because the thread checks the queue before it sleeps,
// or waits to retry. gathering: an urgent entry, or enough bytes for a chunk. asleep: any entry.
enum class Mode : std::uint8_t { busy, gathering, asleep };

timespec to_timespec(Duration duration) {
  const auto ns = std::max(duration, Duration::zero()).count();
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

// State shared by both threads. The thread owns everything below "The thread's".
struct Writer::Shared {
  Shared(Options given, std::unique_ptr<ByteRing> made)
      : options(std::move(given)), ring(std::move(made)) {}

  const Options options;
  const std::unique_ptr<ByteRing> ring;
  UniqueFd woken;    // wakes the thread
  UniqueFd stopped;  // raised by the thread when it ends
  std::atomic<bool> stop{false};
  std::atomic<bool> over{false};  // set before `stopped` is raised; then `ending` may be read
  std::atomic<Mode> mode{Mode::busy};
  std::atomic<bool> key_requested{true};
  std::atomic<int> trouble{0};
  std::atomic<std::uint64_t> lost_entries{0};
  std::atomic<std::uint64_t> lost_bytes{0};
  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> entry_bytes{0};
  std::atomic<std::uint64_t> file_bytes{0};
  std::atomic<std::uint64_t> chunks{0};
  std::atomic<std::uint64_t> files{0};

  // The producer's: lost since the last queued entry.
  std::uint64_t unseen_entries = 0;
  std::uint64_t unseen_bytes = 0;

  // The thread's.
  const SystemClock clock;
  std::optional<Destination> destination;  // nothing: not open yet
  ChunkBuilder chunk;
  std::string entry;
  std::optional<MonotonicTime> flush_due;  // nothing: the chunk is empty
  std::optional<MonotonicTime> retry_due;  // set: writing failed
  bool sync_due = false;
  bool requested = false;          // a key was requested and has not arrived yet
  std::uint64_t key_at_bytes = 0;  // bytes written before the last key
  std::optional<std::int64_t> key_at_ns;
  std::optional<Error> ending;  // why the file is not complete

  void serve();
  [[nodiscard]] Result<void> open();
  void wait();
  void take_all();
  void take_one(const ByteRing::Entry& next);
  [[nodiscard]] bool write_chunk();
  [[nodiscard]] bool begin_segment();
  void sync_if_due();
  void finish();
  [[nodiscard]] bool note(const Result<void>& done);
  void publish();
  void count_rest_as_lost();
  [[nodiscard]] bool may_write() const { return !retry_due || *retry_due <= clock.now(); }
};

// ---- the producer's side ----

Result<std::unique_ptr<Writer>> Writer::create(Options options) {
  auto ring = TRY(ByteRing::create(options.queue_bytes));
  auto shared = std::make_shared<Shared>(std::move(options), std::move(ring));
  if (!shared->options.opened_by_thread) TRY(shared->open());
  shared->woken.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  shared->stopped.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->woken || !shared->stopped) return errno_error("eventfd", "for the recording");
  std::unique_ptr<Writer> made(new Writer(std::move(shared)));
  TRY(made->start());
  return made;
}

Writer::Writer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<void> Writer::start() {
  // A thread inherits its creator's signal mask, so blocking here means that the thread never gets
  // a signal.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = start_thread("forestall-rec", [keep = shared_] {
    pthread_setname_np(pthread_self(), "forestall-rec");
    keep->serve();
    keep->over = true;
    ::eventfd_write(keep->stopped.get(), 1);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  closed_ = !thread;  // without a thread, there is nothing to close
  if (!thread) return thread.error();
  thread->detach();  // close() waits for its end, with a timeout
  return {};
}

Writer::~Writer() {
  if (!closed_) (void)close();
}

bool Writer::give(std::string_view entry, MonotonicTime at, std::uint32_t flags) {
  Shared& shared = *shared_;
  ByteRing::EntryHead label;
  label.at_ns = to_ns(at);
  label.flags = flags;
  label.lost_bytes = shared.unseen_bytes;
  label.lost_entries =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(shared.unseen_entries, UINT32_MAX));
  if (entry.size() > kEntryMax || !shared.ring->give(entry, label)) {
    lose(1);
    shared.unseen_bytes += entry.size();
    shared.lost_bytes.fetch_add(entry.size(), std::memory_order_relaxed);
    return false;
  }
  shared.unseen_entries = 0;
  shared.unseen_bytes = 0;
  const Mode mode = shared.mode.load();
  const bool urgent = (flags & kEntryDurable) != 0 ||
                      shared.ring->used() > std::min(kChunkTarget, shared.ring->capacity() / 2);
  if (mode == Mode::asleep || (mode == Mode::gathering && urgent)) wake();
  return true;
}

void Writer::lose(std::uint64_t entries) {
  if (entries == 0) return;
  shared_->unseen_entries += entries;
  shared_->lost_entries.fetch_add(entries, std::memory_order_relaxed);
  shared_->key_requested = true;
}

bool Writer::take_key_request() {
  return shared_->key_requested.exchange(false);
}

void Writer::wake() {
  ::eventfd_write(shared_->woken.get(), 1);
}

WriterTotals Writer::totals() const {
  const Shared& shared = *shared_;
  WriterTotals totals;
  totals.entries = shared.entries;
  totals.entry_bytes = shared.entry_bytes;
  totals.file_bytes = shared.file_bytes;
  totals.chunks = shared.chunks;
  totals.files = shared.files;
  totals.lost_entries = shared.lost_entries;
  totals.lost_bytes = shared.lost_bytes;
  totals.queued_bytes = shared.ring->used();
  return totals;
}

int Writer::trouble() const {
  return shared_->trouble;
}

Result<WriterTotals> Writer::close(Duration patience) {
  if (!closed_) {
    closed_ = true;
    shared_->stop = true;
    wake();
    pollfd over{shared_->stopped.get(), POLLIN, 0};
    const timespec limit = to_timespec(patience);
    if (::ppoll(&over, 1, &limit, nullptr) != 1 || !shared_->over.load()) {
      return error("timeout while writing the end of the recording to disk");
    }
    if (shared_->ending) return *shared_->ending;
  }
  return totals();
}

// ---- the thread's ----

void Writer::Shared::serve() {
  while (!stop.load()) {
    wait();
    take_all();
    const bool due = flush_due && *flush_due <= clock.now();
    if ((due || sync_due) && write_chunk()) sync_if_due();
  }
  finish();
}

Result<void> Writer::Shared::open() {
  destination = TRY(Destination::open(options.target, options.facts));
  publish();
  return {};
}

// Sleeps until it is woken or a write is due.
void Writer::Shared::wait() {
  const std::optional<MonotonicTime> due = retry_due ? retry_due : flush_due;
  if (!retry_due) mode = flush_due ? Mode::gathering : Mode::asleep;
  // Entries that were queued before the mode was visible did not wake the thread.
  if ((retry_due || ring->empty()) && !stop.load()) {
    const timespec limit = to_timespec(due ? *due - clock.now() : Duration::zero());
    pollfd woken_by{woken.get(), POLLIN, 0};
    ::ppoll(&woken_by, 1, due ? &limit : nullptr, nullptr);
  }
  mode = Mode::busy;
  eventfd_t ignored = 0;
  ::eventfd_read(woken.get(), &ignored);
  // Clears an expired retry time if nothing is left to retry (after a failed fdatasync); otherwise
  // the thread would never sleep.
  if (may_write()) retry_due.reset();
}

// Entries that cannot be written stay in the queue, whose size limits the memory.
void Writer::Shared::take_all() {
  if (!destination && (ring->empty() || !may_write() || !note(open()))) return;
  while (const auto next = ring->peek()) {
    const bool key = (next->label.flags & kEntryKey) != 0;
    const bool full = chunk.raw_size() + next->size > kChunkTarget || !chunk.fits(next->size);
    if (chunk.count() > 0 && (key || full || next->label.lost_entries > 0) && !write_chunk()) {
      return;
    }
    if (key && destination->is_full() && !begin_segment()) return;
    take_one(*next);
  }
}

void Writer::Shared::take_one(const ByteRing::Entry& next) {
  chunk.note_loss(next.label.lost_entries, next.label.lost_bytes);
  if ((next.label.flags & kEntryKey) != 0) {
    chunk.begin_with_key();
    key_at_bytes = destination->bytes();
    key_at_ns = next.label.at_ns;
    requested = false;
  }
  ring->take(entry);
  chunk.append(entry, from_ns(next.label.at_ns));
  if (!flush_due) flush_due = clock.now() + options.flush_after;
  sync_due = sync_due || (next.label.flags & kEntryDurable) != 0;
  const bool old = key_at_ns && next.label.at_ns - *key_at_ns >= kKeyAge.count();
  if (old || destination->bytes() - key_at_bytes >= kKeyBytes || destination->is_full()) {
    if (!std::exchange(requested, true)) key_requested = true;
  }
}

bool Writer::Shared::write_chunk() {
  if (chunk.empty()) return true;
  if (!may_write()) return false;
  const std::uint32_t count = chunk.count();
  const std::size_t size = chunk.raw_size();
  if (!note(destination->write(chunk))) return false;
  entries += count;
  entry_bytes += size;
  chunk.clear();
  flush_due.reset();
  publish();
  return true;
}

bool Writer::Shared::begin_segment() {
  if (!may_write()) return false;
  const bool begun = note(destination->begin_next());
  publish();
  return begun;
}

// Not retried: another fdatasync does not write what a failed one did not.
void Writer::Shared::sync_if_due() {
  if (!std::exchange(sync_due, false)) return;
  (void)note(destination->sync());
}

// Updates `trouble` and the retry time. Returns whether `done` is a success.
bool Writer::Shared::note(const Result<void>& done) {
  trouble = done ? 0 : done.error().code;
  if (done) {
    retry_due.reset();
  } else {
    retry_due = clock.now() + options.retry_after;
  }
  return done.ok();
}

void Writer::Shared::publish() {
  file_bytes = destination->bytes();
  chunks = destination->chunks();
  files = destination->files();
}

// Runs after the last give().
void Writer::Shared::finish() {
  retry_due.reset();  // tries once more after any failure
  take_all();
  if (!destination && ring->empty()) return;  // there never was an entry
  // Entries that are left in the queue could not be written.
  bool whole = write_chunk() && ring->empty();
  if (whole && unseen_entries > 0) {
    chunk.note_loss(unseen_entries, unseen_bytes);
    whole = write_chunk();
  }
  const auto ended = whole ? destination->finish() : Result<void>(Error{trouble, "write"});
  if (!ended) ending = ended.error().in(options.target.path);
  if (!whole) count_rest_as_lost();
  if (destination) publish();
  // Closes the destination before `stopped` is raised, because the next recording may use the same
  // directory.
  destination.reset();
}

void Writer::Shared::count_rest_as_lost() {
  lost_entries += chunk.count();
  lost_bytes += chunk.raw_size();
  while (ring->peek()) {
    ring->take(entry);
    ++lost_entries;
    lost_bytes += entry.size();
  }
}

}  // namespace forestall::recording
