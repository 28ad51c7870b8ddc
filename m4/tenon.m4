dnl Tenon's own configure macros.

dnl TN_CC_FLAG(VARIABLE, FLAG): adds FLAG to VARIABLE if the compiler has it.
AC_DEFUN([TN_CC_FLAG], [
  AS_VAR_PUSHDEF([tn_flag], [tn_cv_flag_$2])
  AC_CACHE_CHECK([whether $CC accepts $2], [tn_flag], [
    tn_save_cflags=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
                      [AS_VAR_SET([tn_flag], [yes])],
                      [AS_VAR_SET([tn_flag], [no])])
    CFLAGS=$tn_save_cflags])
  AS_VAR_IF([tn_flag], [yes], [$1="${$1:+$$1 }$2"])
  AS_VAR_POPDEF([tn_flag])
])

dnl Flags without which the code is wrong. Contraction of a*b+c to fma would
dnl change bits from one compiler to the next.
AC_DEFUN([TN_LANGUAGE_FLAGS], [
  TN_CFLAGS="-std=c11 -ffp-contract=off -fvisibility=hidden"
  TN_CC_FLAG([TN_CFLAGS], [-fno-semantic-interposition])
  # Several places of a variable within one line of code take the compiler a
  # twentieth of its time to describe. gdb needs them only to step by views.
  TN_CC_FLAG([TN_CFLAGS], [-gno-variable-location-views])
  TN_CFLAGS="$TN_CFLAGS -pthread"
  AC_SUBST([TN_CFLAGS])
])

dnl For all but the loops over elements: loops and jumps that begin anywhere
dnl take 2 % less room.
AC_DEFUN([TN_SMALL_FLAGS], [
  TN_SMALL_CFLAGS=
  for tn_small in -falign-loops=1 -falign-jumps=1 -falign-labels=1; do
    TN_CC_FLAG([TN_SMALL_CFLAGS], [$tn_small])
  done
  AC_SUBST([TN_SMALL_CFLAGS])
  TN_ROOM_CFLAGS=
  TN_LOOP_CFLAGS=
  TN_TEST_CFLAGS=
  # In vector code a debugger finds few variables anyway, and recording where they
  # are takes a tenth of the compiler's time.
  TN_VECTOR_CFLAGS=
  TN_CC_FLAG([TN_VECTOR_CFLAGS], [-fno-var-tracking])
  # clang reports loops that an instruction set cannot vectorize: SSE2 has no
  # shifts by different numbers of bits.
  TN_CC_FLAG([TN_VECTOR_CFLAGS], [-Wno-pass-failed])
  AC_SUBST([TN_VECTOR_CFLAGS])
  # clang's -Oz leaves out more than size: it does not vectorize
  AC_CACHE_CHECK([for the -Oz of gcc], [tn_cv_oz], [
    tn_cflags=$CFLAGS
    CFLAGS="$CFLAGS -Oz"
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([
#ifdef __clang__
#error
#endif
])], [tn_cv_oz=-Oz], [tn_cv_oz=-Os])
    CFLAGS=$tn_cflags])
  for tn_level in -O2 -O3; do
    case " $CFLAGS " in
      *" $tn_level "*) TN_ROOM_CFLAGS=$tn_cv_oz TN_LOOP_CFLAGS=$tn_level
                         TN_TEST_CFLAGS=-O1 ;;
    esac
  done
  AC_SUBST([TN_TEST_CFLAGS])
  AC_SUBST([TN_ROOM_CFLAGS])
  AC_SUBST([TN_LOOP_CFLAGS])
])

dnl --enable-werror, and the warnings that the code is free of with gcc and
dnl with clang.
AC_DEFUN([TN_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [make warnings errors])],
    [], [enable_werror=no])
  TN_WARN_CFLAGS=
  for tn_warning in -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
      -Wno-sign-conversion -Wstrict-prototypes; do
    TN_CC_FLAG([TN_WARN_CFLAGS], [$tn_warning])
  done
  AS_IF([test "x$enable_werror" = xyes],
        [TN_WARN_CFLAGS="$TN_WARN_CFLAGS -Werror"])
  AC_SUBST([TN_WARN_CFLAGS])
])

dnl --enable-sanitizers=LIST. libtool drops -fsanitize from a link unless it
dnl sits in the compiler's own command, so it goes to CC.
AC_DEFUN([TN_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST],
       [instrument everything; LIST is address,undefined or thread])],
    [], [enable_sanitizers=no])
  AS_CASE([$enable_sanitizers],
    [no], [],
    [yes], [enable_sanitizers=address,undefined])
  AS_IF([test "x$enable_sanitizers" != xno], [
    CC="$CC -fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    CXX="$CXX -fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    AS_CASE([$enable_sanitizers],
      [*undefined*], [CC="$CC -fno-sanitize-recover=undefined"])
    AC_MSG_CHECKING([whether $CC links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
      [AC_MSG_ERROR([the compiler has no -fsanitize=$enable_sanitizers])])
    # instrumented loops are not vectorized, and clang would say so of each
    TN_CC_FLAG([TN_WARN_CFLAGS], [-Wno-pass-failed])
  ], [TN_DEFS_LDFLAGS=-Wl,-z,defs])
  AM_CONDITIONAL([HAVE_SANITIZERS], [test "x$enable_sanitizers" != xno])
  AC_SUBST([TN_DEFS_LDFLAGS])
])

dnl Relocations of a pointer that only moves with the library take 24 bytes
dnl each, a bit each when packed: the operator table has 10,000 of them. Linker
dnl and C library must both know it, so a program is linked and run.
AC_DEFUN([TN_PACKED_RELOCATIONS], [
  AC_CACHE_CHECK([for packed relocations], [tn_cv_packed], [
    tn_ldflags=$LDFLAGS
    LDFLAGS="$LDFLAGS -pie -Wl,-z,pack-relative-relocs"
    AC_RUN_IFELSE([AC_LANG_PROGRAM(
      [[static int x; int *p[] = {&x, &x, &x};]],
      [[return p[1] != &x;]])],
      [tn_cv_packed=yes], [tn_cv_packed=no], [tn_cv_packed=no])
    LDFLAGS=$tn_ldflags])
  AS_IF([test $tn_cv_packed = yes],
    [TN_PACK_LDFLAGS=-Wl,-z,pack-relative-relocs])
  AC_SUBST([TN_PACK_LDFLAGS])
])

dnl The library calls its own public functions directly. Through the table of
dnl imported functions, each would take 48 bytes and each call a jump more.
AC_DEFUN([TN_OWN_CALLS], [
  AC_CACHE_CHECK([for direct calls of exported functions], [tn_cv_own_calls], [
    tn_ldflags=$LDFLAGS
    LDFLAGS="$LDFLAGS -shared -fPIC -Wl,-Bsymbolic-functions"
    AC_LINK_IFELSE([AC_LANG_SOURCE([int tn_x(void); int tn_x(void) { return 0; }])],
      [tn_cv_own_calls=yes], [tn_cv_own_calls=no])
    LDFLAGS=$tn_ldflags])
  AS_IF([test $tn_cv_own_calls = yes],
    [TN_OWN_LDFLAGS=-Wl,-Bsymbolic-functions])
  AC_SUBST([TN_OWN_LDFLAGS])
])

dnl Symbols with a version tell a program at its start that the library is too
dnl old, where the linker has them.
AC_DEFUN([TN_SYMBOL_VERSIONS], [
  AC_CACHE_CHECK([for symbol versions], [tn_cv_versions], [
    tn_ldflags=$LDFLAGS
    echo 'TN { global: tn_*; local: *; };' >conftest.map
    LDFLAGS="$LDFLAGS -shared -fPIC -Wl,--version-script,conftest.map"
    AC_LINK_IFELSE([AC_LANG_SOURCE([int tn_x(void); int tn_x(void) { return 0; }])],
      [tn_cv_versions=yes], [tn_cv_versions=no])
    rm -f conftest.map
    LDFLAGS=$tn_ldflags])
  AM_CONDITIONAL([HAVE_SYMBOL_VERSIONS], [test $tn_cv_versions = yes])
])

dnl CC_FOR_BUILD compiles programs that the build itself runs.
AC_DEFUN([TN_PROG_CC_FOR_BUILD], [
  AC_ARG_VAR([CC_FOR_BUILD], [compiler for programs that the build runs])
  AC_ARG_VAR([CFLAGS_FOR_BUILD], [flags of CC_FOR_BUILD])
  AS_IF([test "x$CC_FOR_BUILD" = x], [
    AS_IF([test "x$cross_compiling" = xyes],
      [AC_CHECK_PROGS([CC_FOR_BUILD], [gcc clang cc], [no])
       AS_IF([test "x$CC_FOR_BUILD" = xno], [AC_MSG_ERROR(
         [cross building needs a native compiler: set CC_FOR_BUILD])])],
      [CC_FOR_BUILD=$CC])])
  AS_IF([test "x$CFLAGS_FOR_BUILD" = x], [CFLAGS_FOR_BUILD=-O0])
])

dnl TN_CHECK_RUNTIME_LIBRARY(NAME, SONAME, FUNCTION): can a program open SONAME
dnl and find FUNCTION? Told in the summary, used for nothing else.
AC_DEFUN([TN_CHECK_RUNTIME_LIBRARY], [
  AC_CACHE_CHECK([for $2 at run time], [tn_cv_runtime_$1], [
    tn_save_libs=$LIBS
    LIBS="$TN_LIBS $LIBS"
    AC_RUN_IFELSE([AC_LANG_PROGRAM([[#include <dlfcn.h>]], [[
        void *library = dlopen("$2", RTLD_NOW | RTLD_LOCAL);
        return !library || !dlsym(library, "$3");]])],
      [tn_cv_runtime_$1=yes], [tn_cv_runtime_$1=no],
      [tn_cv_runtime_$1="unknown, cross building"])
    LIBS=$tn_save_libs])
])

# TN_CMAKE_FOLDERS
# TN_CMAKE_INCLUDE: the folder of the headers, as seen from the installed
# tenon-config.cmake: relative if both lie below the prefix, else absolute.
AC_DEFUN([TN_CMAKE_FOLDERS], [[
TN_CMAKE_INCLUDE=$(
    test "x$prefix" != xNONE || prefix=$ac_default_prefix
    test "x$exec_prefix" != xNONE || exec_prefix=$prefix
    # '${exec_prefix}/lib', and exec_prefix may be '${prefix}'
    eval "libdir=$libdir includedir=$includedir"
    eval "libdir=$libdir includedir=$includedir"
    case $libdir:$includedir in
    "$prefix"/*:"$prefix"/*)
        printf '%s\n' "${libdir#"$prefix"/}/cmake/tenon" |
            sed 's|[^/]\{1,\}|..|g' | tr '\n' /
        printf '%s\n' "${includedir#"$prefix"/}" ;;
    *) printf '%s\n' "$includedir" ;;
    esac)]
AC_SUBST([TN_CMAKE_INCLUDE])
])

# TN_MPI_FLAGS(VARIABLE, MACRO, WRAPPERS, COMPILE, LINK)
# Looks for an implementation of MPI: the first of the compiler WRAPPERS whose
# flags, which the options COMPILE and LINK print, find an mpi.h that defines
# MACRO and a library that links. Sets tn_VARIABLE to yes or no, and substitutes
# VARIABLE_CPPFLAGS and VARIABLE_LIBS. The program is not compiled by the wrapper:
# CC may be another compiler.
AC_DEFUN([TN_MPI_FLAGS], [
AC_MSG_CHECKING([for $2, by $3])
tn_$1=no
tn_save_CPPFLAGS=$CPPFLAGS tn_save_LIBS=$LIBS
for tn_wrapper in $3; do
    command -v $tn_wrapper >/dev/null 2>&1 || continue
    $1_CPPFLAGS= $1_LIBS=
    for tn_word in `$tn_wrapper $4 2>/dev/null`; do
        case $tn_word in
        (-I*) $1_CPPFLAGS="$$1_CPPFLAGS -isystem `echo $tn_word | cut -c3-`" ;;
        (-D*) $1_CPPFLAGS="$$1_CPPFLAGS $tn_word" ;;
        esac
    done
    for tn_word in `$tn_wrapper $5 2>/dev/null`; do
        case $tn_word in
        (-L*|-l*) $1_LIBS="$$1_LIBS $tn_word" ;;
        esac
    done
    CPPFLAGS="$tn_save_CPPFLAGS $$1_CPPFLAGS" LIBS="$$1_LIBS $tn_save_LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <mpi.h>
        #ifndef $2
        #error another implementation
        #endif]], [[int flag; return MPI_Initialized(&flag);]])],
        [tn_$1=yes], [])
    AS_IF([test $tn_$1 = yes], [break])
done
CPPFLAGS=$tn_save_CPPFLAGS LIBS=$tn_save_LIBS
AC_MSG_RESULT([$tn_$1])
AC_SUBST([$1_CPPFLAGS])
AC_SUBST([$1_LIBS])
])
