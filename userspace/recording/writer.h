// SPDX-License-Identifier: Apache-2.0
// Entries from the agent's loop to disk, by a thread of their own.
//
// The loop gives and goes on: nothing it calls waits, takes a lock, allocates or asks the kernel
// for more than one eventfd write. The thread, of ordinary priority, packs what was given into
// chunks and writes them a second later at most, and at once, to the platter, what must not be lost
// (a decision to kill: whoever asks why it did not help has a node that crashed).
//
// What finds no room in the queue is counted, and told in the file where it is missing. A disk that
// is full or broken holds up nobody but the thread: it tries again each second, the queue fills
// meanwhile, and once there is space the recording goes on with what was lost counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "recording/destination.h"

namespace forestall::recording {

// Of an entry; any of them together.
enum EntryFlag : std::uint32_t {
  kEntryKey = 1U << 0,      // begins anew: nothing from here on refers to what came before
  kEntryDurable = 1U << 1,  // on disk as soon as can be
};

struct Totals {
  std::uint64_t entries = 0;       // in the file
  std::uint64_t entry_bytes = 0;   // of them, before packing
  std::uint64_t file_bytes = 0;    // of the file, or all segments that were made
  std::uint64_t chunks = 0;        // of them
  std::uint64_t files = 0;         // segments, or one
  std::uint64_t lost_entries = 0;  // for want of room in the queue, or on the disk at the end
  std::uint64_t lost_bytes = 0;    // of them
  std::uint64_t queued_bytes = 0;  // given, and not taken by the thread yet
};

class Writer {
 public:
  struct Options {
    Target target;
    std::string facts;  // for the header: what the entries have in common
    std::size_t queue_bytes = std::size_t{4} << 20;
    Duration flush_after = std::chrono::seconds(1);
    Duration retry_after = std::chrono::seconds(1);  // a disk that is full or broken
    // The thread opens the target, with the first entry, and tries again as it does when writing
    // fails: whoever gives waits for no disk at all, and learns by trouble() what is wrong.
    bool opened_by_thread = false;
  };

  // Makes the file, or the first segment, and the thread. Errors are Destination::open()'s, unless
  // the thread is to open it (EEXIST: it is there, and was not to be overwritten), and EAGAIN: no
  // thread is to be had.
  [[nodiscard]] static Result<std::unique_ptr<Writer>> create(Options options);
  // close(), if nobody did.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // ---- the giver's: one thread at a time ----

  // `at`: the entry's time. False: it found no room and is counted as lost. `flags`: of EntryFlag.
  // An entry must not be larger than kEntryMax, or it is lost.
  bool give(std::string_view entry, MonotonicTime at, std::uint32_t flags = 0);
  // Counts entries that were never given as lost.
  void lose(std::uint64_t entries);
  // Whether the next entry should be a key, and whatever it refers to follow: at the start, after a
  // loss, and now and then so that readers find a place to start. True once for each such time.
  [[nodiscard]] bool take_key_wish();

  // ---- any thread's ----

  [[nodiscard]] Totals totals() const;
  // errno of what keeps the thread from writing; 0: nothing does. It goes on by itself.
  [[nodiscard]] int trouble() const;

  // Writes what was given, ends the file with its index, ends the thread. Waits `patience` for
  // that at most: a disk that hangs takes the thread with it, and the file has no index then.
  // Errors: what kept it from a clean end. No call of the giver's may follow, or be under way.
  Result<Totals> close(Duration patience = std::chrono::seconds(5));

 private:
  struct Shared;

  explicit Writer(std::shared_ptr<Shared> shared);
  [[nodiscard]] Result<void> start();
  void wake();

  std::shared_ptr<Shared> shared_;  // with a thread that may outlive this
  bool closed_ = false;
};

}  // namespace forestall::recording
