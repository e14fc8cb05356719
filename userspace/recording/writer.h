// SPDX-License-Identifier: Apache-2.0
// Passes entries from the agent's loop to a thread that writes them to disk.
//
// Calls by the loop never block, take a lock, allocate, or make more than one system call (an
// eventfd write). The thread, of ordinary priority, packs entries into chunks and writes them
// within a second. It writes and syncs entries that must not be lost at once: if the node crashes
// after a decision to kill, the recording shows why the kill did not help.
//
// Entries that do not fit into the queue are counted, and the file records the loss in its place. A
// full or broken disk blocks only the thread, which retries each second. The queue fills meanwhile;
// when writing succeeds again, the recording continues with the loss counted.
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

// Flags of an entry; can be combined.
enum EntryFlag : std::uint32_t {
  kEntryKey = 1U << 0,      // no entry from here on refers to an earlier entry
  kEntryDurable = 1U << 1,  // written and synced as soon as possible
};

struct WriterTotals {
  std::uint64_t entries = 0;       // in the file
  std::uint64_t entry_bytes = 0;   // of those entries, before compression
  std::uint64_t file_bytes = 0;    // of the file, or all segments that were made
  std::uint64_t chunks = 0;        // in all files
  std::uint64_t files = 0;         // segments, or one
  std::uint64_t lost_entries = 0;  // did not fit into the queue, or were not written before close()
  std::uint64_t lost_bytes = 0;    // size of those entries
  std::uint64_t queued_bytes = 0;  // queued, and not read by the thread yet
};

class Writer {
 public:
  struct Options {
    Target target;
    std::string facts;  // for the file header
    std::size_t queue_bytes = std::size_t{4} << 20;
    Duration flush_after = std::chrono::seconds(1);
    Duration retry_after = std::chrono::seconds(1);  // after a failed write
    // The thread opens the target with the first entry, and retries as it does for failed writes.
    // The producer then never waits for a disk, and trouble() reports the error.
    bool opened_by_thread = false;
  };

  // Creates the file, or the first segment, and the thread. Errors are Destination::open()'s unless
  // `opened_by_thread` (EEXIST: the file exists and `overwrite` is not set), and EAGAIN: no thread
  // could be started.
  [[nodiscard]] static Result<std::unique_ptr<Writer>> create(Options options);
  // Calls close() if it was not called before.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // ---- producer: one thread at a time ----

  // `at`: the entry's time; `flags`: EntryFlag. False: the entry did not fit, or is larger than
  // kEntryMax, and is counted as lost.
  bool give(std::string_view entry, MonotonicTime at, std::uint32_t flags = 0);
  // Counts entries as lost that were never passed to give().
  void lose(std::uint64_t entries);
  // Whether the next entry should be a key, followed by everything it refers to: at the start,
  // after a loss, and regularly so that readers can start there. True once for each such occasion.
  [[nodiscard]] bool take_key_request();

  // ---- any thread ----

  [[nodiscard]] WriterTotals totals() const;
  // errno of the failure that prevents writing; 0: none. Cleared once writing succeeds.
  [[nodiscard]] int trouble() const;

  // Writes all queued entries and the index, and ends the thread. Waits at most `patience`; if the
  // disk hangs, the thread remains and the file has no index. Errors: why the file is not complete.
  // The producer must not call this object during or after close().
  Result<WriterTotals> close(Duration patience = std::chrono::seconds(5));

 private:
  struct Shared;

  explicit Writer(std::shared_ptr<Shared> shared);
  [[nodiscard]] Result<void> start();
  void wake();

  std::shared_ptr<Shared> shared_;  // shared with a thread that may outlive this object
  bool closed_ = false;
};

}  // namespace forestall::recording
