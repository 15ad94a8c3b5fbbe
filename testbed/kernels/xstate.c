/*
 * Preloaded into a user-mode kernel that is older than the processor it runs on.
 *
 * User-mode Linux up to 6.12 keeps a fixed area for the vector registers of its processes: 2696 bytes, up to AVX-512.
 * Where the processor has more (AMX: 11008 bytes), the host refuses to take back an area that is shorter than its own
 * (EFAULT from PTRACE_SETREGSET), and the first process of the user-mode kernel dies. This puts zeros behind what the
 * user-mode kernel hands over, up to the size that the host wants: registers that no process in there can have used,
 * because it is the host that grants their use, and the user-mode kernel does not ask for it.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define LONGEST (64 * 1024)
#define FEATURES_AT 512 /* XSTATE_BV, the first word of the XSAVE header */
#define UP_TO_AVX512 0xffUL

static unsigned int wanted_by_host(void)
{
	unsigned int eax, ebx = 0, ecx, edx;

	__cpuid_count(0xd, 0, eax, ebx, ecx, edx);
	return ebx;
}

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, ...);
	static unsigned char whole[LONGEST] __attribute__((aligned(64)));
	static unsigned int length;
	void *pid, *address, *data;
	va_list rest;

	va_start(rest, request);
	pid = va_arg(rest, void *);
	address = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	if (!next) {
		next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
		length = wanted_by_host();
	}
	if (request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE) {
		struct iovec *given = data;

		if (given->iov_len < length && length <= LONGEST) {
			struct iovec padded = { whole, length };
			unsigned long features;

			memcpy(whole, given->iov_base, given->iov_len);
			memcpy(&features, whole + FEATURES_AT, sizeof(features));
			features &= UP_TO_AVX512;
			memcpy(whole + FEATURES_AT, &features, sizeof(features));
			return next(request, pid, address, &padded);
		}
	}
	return next(request, pid, address, data);
}
