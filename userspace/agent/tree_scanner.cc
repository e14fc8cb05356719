// SPDX-License-Identifier: Apache-2.0
#include "agent/tree_scanner.h"

#include <time.h>

#include <utility>

#include "kernel/scheduling.h"

namespace forestall::agent {
namespace {

Duration cpu_time_of_this_thread() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<TreeScannerThread>> TreeScannerThread::create() {
  std::unique_ptr<TreeScannerThread> made(new TreeScannerThread());
  made->thread_ =
      TRY(base::JobThread::create("tree-scanner", [scanner = made.get()] { scanner->refresh(); }));
  return made;
}

// The loop frees what this thread allocated. A thread of ordinary priority that is preempted with
// the allocator's lock would make it wait.
void TreeScannerThread::refresh() {
  kernel::use_service_priority();
  const Duration before = cpu_time_of_this_thread();
  scan_.tree->refresh(stopping_);
  scan_.took = cpu_time_of_this_thread() - before;
}

void TreeScannerThread::start(std::unique_ptr<sources::HeldTree> tree) {
  scan_.tree = std::move(tree);
  static_cast<void>(thread_->start());  // idle, by the precondition
}

std::optional<TreeScanner::Scan> TreeScannerThread::finish() {
  if (!thread_->finish()) return std::nullopt;
  return std::exchange(scan_, Scan{});
}

}  // namespace forestall::agent
