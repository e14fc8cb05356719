// SPDX-License-Identifier: Apache-2.0
// One line of evidence out of what libbpf and the verifier write.
#include "kernel/bpf_log.h"

#include <bpf/libbpf.h>
#include <gtest/gtest.h>

namespace forestall::kernel {
namespace {

TEST(BpfLogTest, ARefusalWithoutAVerifierLogIsLibbpfsFirstLine) {
  EXPECT_EQ(summarize_bpf_log("libbpf: prog 'charge': BPF program load failed: Operation not "
                              "permitted\nlibbpf: prog 'charge': failed to load: -1\n"
                              "libbpf: failed to load object 'forestall_bpf'\n"),
            "prog 'charge': BPF program load failed: Operation not permitted");
}

TEST(BpfLogTest, TheVerifiersLastWordIsAdded) {
  EXPECT_EQ(summarize_bpf_log("libbpf: prog 'x': BPF program load failed: Permission denied\n"
                              "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n"
                              "0: R1=ctx(off=0,imm=0) R10=fp0\n"
                              "0: (79) r1 = *(u64 *)(r1 +16)\n"
                              "invalid bpf_context access off=16 size=8\n"
                              "processed 1 insns (limit 1000000)\n"
                              "-- END PROG LOAD LOG --\n"
                              "libbpf: prog 'x': failed to load: -13\n"),
            "prog 'x': BPF program load failed: Permission denied (verifier: invalid bpf_context "
            "access off=16 size=8)");
}

TEST(BpfLogTest, NothingSaidIsNothing) {
  EXPECT_EQ(summarize_bpf_log(""), "");
  EXPECT_EQ(summarize_bpf_log("\n\n"), "");
  EXPECT_EQ(summarize_bpf_log("not from libbpf\n"), "");
}

TEST(BpfLogTest, WarningsAreCaughtAndNotPrinted) {
  testing::internal::CaptureStderr();
  std::string caught;
  {
    const BpfLog log;
    EXPECT_EQ(bpf_object__open("/nonexistent/object.bpf.o"), nullptr);
    caught = log.text();
  }
  EXPECT_EQ(bpf_object__open("/nonexistent/object.bpf.o"), nullptr);  // nobody listens any more
  EXPECT_NE(caught.find("/nonexistent/object.bpf.o"), std::string::npos);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace forestall::kernel
