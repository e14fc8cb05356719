// SPDX-License-Identifier: Apache-2.0
#include "sources/descriptor_closer.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <mutex>
#include <utility>

#include "base/start_thread.h"

namespace forestall::sources {

Result<std::unique_ptr<DescriptorCloser>> DescriptorCloser::create() {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC));
  if (!changed) return errno_error("eventfd", "for closing descriptors");
  std::unique_ptr<DescriptorCloser> made(new DescriptorCloser(std::move(changed)));
  made->thread_ = TRY(start_thread("closer", [closer = made.get()] { closer->serve(); }));
  pthread_setname_np(made->thread_.native_handle(), "closer");
  return made;
}

DescriptorCloser::~DescriptorCloser() {
  stopping_ = true;
  ::eventfd_write(changed_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void DescriptorCloser::close(UniqueFd descriptor) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(descriptor));
  }
  ::eventfd_write(changed_.get(), 1);
}

void DescriptorCloser::serve() {
  while (!stopping_) {
    eventfd_t ignored = 0;
    ::eventfd_read(changed_.get(), &ignored);
    std::vector<UniqueFd> closed;  // after the lock is released: destroyed in reverse order
    const std::lock_guard lock(mutex_);
    closed.swap(waiting_);
  }
}

}  // namespace forestall::sources
