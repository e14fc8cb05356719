// SPDX-License-Identifier: Apache-2.0
// Refreshes the observer's standby tree (sources/held_tree.h) on a thread of its own, below the
// loop's priority. Listing and opening cgroups waits for kernfs locks that any tenant takes; the
// loop then only exchanges the trees.
//
// The tree passes to the thread and back by value. Its owner is the loop, and the thread from
// start() until finish() returns it; base/job_thread.h has the order of memory.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "sources/held_tree.h"

namespace forestall::agent {

// The scanner as the loop uses it. Base: there is none, and the loop refreshes its tree itself.
// Thread rule: the loop's thread only.
class TreeScanner {
 public:
  struct Scan {
    std::unique_ptr<sources::HeldTree> tree;
    Duration took{0};  // CPU time
  };

  TreeScanner() = default;
  TreeScanner(const TreeScanner&) = delete;
  TreeScanner& operator=(const TreeScanner&) = delete;
  virtual ~TreeScanner() = default;

  // Whether scans run apart from the loop.
  [[nodiscard]] virtual bool exists() const { return false; }
  // Begins to refresh `tree`. REQUIRES: exists(), and no scan runs.
  virtual void start(std::unique_ptr<sources::HeldTree>) {}
  // The scan that is over; nothing: none is.
  [[nodiscard]] virtual std::optional<Scan> finish() { return std::nullopt; }
  // Polls readable when a scan is over; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
};

class TreeScannerThread final : public TreeScanner {
 public:
  static Result<std::unique_ptr<TreeScannerThread>> create();
  // Waits for a scan that runs, after stop().
  ~TreeScannerThread() override { stop(); }

  // A scan that runs ends before the next cgroup that it would open, incomplete.
  void stop() { stopping_ = true; }
  [[nodiscard]] bool exists() const override { return true; }
  void start(std::unique_ptr<sources::HeldTree> tree) override;
  [[nodiscard]] std::optional<Scan> finish() override;
  [[nodiscard]] int fd() const override { return thread_->fd(); }

 private:
  TreeScannerThread() = default;
  void refresh();

  std::atomic<bool> stopping_{false};
  Scan scan_;                                // the thread's while it runs
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses scan_
};

}  // namespace forestall::agent
